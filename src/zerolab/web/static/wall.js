// Wall page: the standings and latest games in the class tournament, in large type.

import { get } from "./lib/api.js";
import { count, elo, keepShowing, linkTo, stateOfTournament } from "./lib/archive.js";
import { byId, el, table } from "./lib/dom.js";

const REFRESH_SECONDS = 2;
const MOST_ROWS = 16;
const VERBS = { first: "beats", second: "loses to", draw: "draws with" };

keepShowing(() => get("/class/standings"), draw, REFRESH_SECONDS);

function draw({ pupil_count: pupils, agent_count: agents, tournament, ratings, latest_games: latest }) {
  byId("content").hidden = false;
  byId("state").textContent = tournament
    ? `${tournament.game}: ${count(tournament.stored_games)} of ${count(tournament.planned_games)} games, ${stateOfTournament(tournament)}`
    : `${agents} of ${pupils} pupils ${agents === 1 ? "has" : "have"} an agent.`;
  const rows = ratings.map((each, place) => [
    place + 1, each.player, (each.score_rate * each.games).toLocaleString("en"), each.games, elo(each.elo), margin(each),
  ]);
  const waiting = el("p", { class: "soft" }, tournament ? "The standings will appear once the first games have finished." : "");
  byId("content").classList.toggle("many", rows.length > MOST_ROWS);
  byId("standings").replaceChildren(...(rows.length ? tables(rows) : [waiting]));
  byId("latest").replaceChildren(...latest.map((game) => el("li", {}, line(game, tournament.folder))));
}

/** One table of the standings, or two side by side if one would not fit on a screen. */
function tables(rows) {
  const first = rows.length > MOST_ROWS ? Math.ceil(rows.length / 2) : rows.length;
  const parts = [rows.slice(0, first), rows.slice(first)].filter((each) => each.length);
  return parts.map((part, number) => {
    const caption = number ? `Standings from place ${first + 1}` : "Standings";
    return table(["", "Name", "Points", "Games", "Elo", "95 % interval"], part, { numbers: [0, 2, 3, 4, 5], caption });
  });
}

const margin = ({ low, high }) => `${elo(low)} to ${elo(high)}`;

/** Link to a game that gives the result as text, such as "Ada beats Ben". */
function line({ iteration, stage, number, first, second, result }, source) {
  return linkTo("replay", { source, at: [iteration, number, stage].join() }, `${first} ${VERBS[result]} ${second}`);
}
