// Tournament page: ratings with error bars, and a cross table whose cells link to the games.

import { get, post } from "./lib/api.js";
import { count, dateOf, elo, goTo, interval, keepShowing, linkTo, showFacts, showTitle } from "./lib/archive.js";
import { byId, el, guarded, hashParams, percent, table } from "./lib/dom.js";
import { drawIntervals } from "./lib/intervals.js";

const REFRESH_SECONDS = 5;
let tournament = "";
let isAllowed = null; // true if pages may start tournaments; null until the server responds

/** Load the results, if there are any yet, and, if pages may start tournaments, the process state. */
async function load() {
  tournament = hashParams().tournament;
  showTitle(tournament);
  isAllowed ??= (await get("/server")).allow_training;
  const playing = isAllowed ? await get("/tournaments/playing", { tournament }) : null;
  try {
    return { details: await get("/tournaments/one", { tournament }), playing };
  } catch (error) {
    if (error.status !== 404 || !playing) throw error;
    return { details: null, playing };
  }
}

function show({ details, playing }) {
  if (playing) showPlaying(details, playing);
  if (details) showResults(details);
}

function showPlaying(details, playing) {
  byId("playing-part").hidden = !playing.is_running && !playing.may_resume && (details !== null || !playing.output.length);
  const { stored_games: games = 0, planned_games: planned = 1 } = details?.tournament ?? {};
  byId("progress").value = games / planned;
  const state = playing.is_running ? "In progress" : details ? "Stopped" : "The tournament could not be started";
  byId("playing").textContent = details ? `${state}: ${count(games)} of ${count(planned)} games are stored.` : `${state}.`;
  byId("stop").hidden = !playing.may_stop;
  byId("resume").hidden = !playing.may_resume;
  byId("output-part").hidden = !playing.output.length;
  byId("output-part").open ||= !details && !playing.is_running;
  byId("output").textContent = playing.output.join("\n");
}

function showResults(details) {
  byId("content").hidden = false;
  const { tournament: summary, ratings } = details;
  const isComplete = summary.stored_games >= summary.planned_games;
  const facts = [
    ...(summary.winner ? [["Winner", summary.winner, true]] : []),
    ["State", summary.is_running ? "in progress" : isComplete ? "finished" : "stopped", true],
    ["Games", `${count(summary.stored_games)} of ${count(summary.planned_games)}`, true], ["Game", summary.game], ["Players", summary.player_count],
    ["Latest game", dateOf(summary.latest_progress_time) || "–"], ["Games per pair", details.games_per_pair], ["Random opening plies", details.opening_plies],
    ["First-move advantage", details.first_move_advantage === null ? "–" : `${elo(details.first_move_advantage)} Elo`],
  ];
  showFacts(byId("facts"), facts);
  byId("links").replaceChildren(linkTo("replay", { source: tournament }, "View its games", { class: "button" }));
  byId("note").textContent = details.unrated_reason;
  drawIntervals(byId("figure"), ratings.map((each) => ({ ...each, name: each.player, value: each.elo })), {
    text: elo, steps: [10, 20, 50, 100, 200, 500, 1000, 2000], label: "Elo with 95 % intervals",
  });
  byId("ratings").replaceChildren(ratings.length ? ratingTable(ratings) : "");
  byId("cross").replaceChildren(ratings.length ? crossTable(ratings, details.cross_table) : "");
}

function ratingTable(ratings) {
  const rows = ratings.map((each, rank) => [
    rank + 1, el("span", { class: "name" }, each.player), elo(each.elo), `${elo(each.low)} to ${elo(each.high)}`,
    count(each.games), count(Math.round(each.effective_games)), percent(each.score_rate, 1), percent(each.draw_rate, 1),
    linkTo("replay", { source: tournament, player: each.player }, "games", { "aria-label": `Games of ${each.player}` }),
  ]);
  const headings = ["rank", "player", "Elo", "95 % interval", "games", "effective", "points per game", "draws", "games"];
  return table(headings, rows, { numbers: [0, 2, 3, 4, 5, 6, 7], caption: "Ratings", isDense: true });
}

function crossTable(ratings, cells) {
  const rows = cells.map((row, i) => [
    el("span", { class: "name" }, `${i + 1}. ${ratings[i].player}`),
    ...row.map((pair, j) => (pair ? cell(ratings[i].player, ratings[j].player, pair) : "")),
  ]);
  const headings = ["player", ...ratings.map((_, i) => String(i + 1))];
  return table(headings, rows, { caption: "Points per game for every pair", keepsColumns: true });
}

function cell(player, opponent, pair) {
  const { score_rate: rate, low, high, games, effective_games: effective } = pair;
  const label = `${player} against ${opponent}: ${interval(rate, low, high)} in ${games} games, ${Math.round(effective)} effective`;
  const link = linkTo("replay", { source: tournament, player, opponent }, percent(rate), { "aria-label": label, title: label });
  link.style.setProperty("--share", (0.05 + 0.4 * rate).toFixed(2));
  return link;
}

if (hashParams().tournament) {
  const showAgain = keepShowing(load, show, REFRESH_SECONDS);
  addEventListener("hashchange", showAgain);
  for (const action of ["stop", "resume"]) {
    byId(action).addEventListener("click", () =>
      guarded(async () => {
        await post(`/tournaments/${action}`, { tournament });
        showAgain();
      }),
    );
  }
} else {
  goTo("tournaments", {});
}
