// Tournament page: ratings with error bars, and a cross table whose cells link to the games.

import { get } from "./lib/api.js";
import { count, elo, goTo, interval, keepShowing, linkTo } from "./lib/archive.js";
import { byId, el, hashParams, percent, svg, table } from "./lib/dom.js";

const REFRESH_SECONDS = 5;
const [ROW, MARGIN, WIDEST] = [24, 26, 820];
let tournament = "";

function load() {
  tournament = hashParams().tournament;
  byId("tournament-title").textContent = tournament;
  document.title = `${tournament} · zerolab`;
  return get("/tournaments/one", { tournament });
}

function show(details) {
  byId("content").hidden = false;
  const { summary, ratings } = details;
  const isComplete = summary.games >= summary.games_planned;
  const facts = [
    ["Game", summary.game], ["Players", summary.players], ["Games", `${count(summary.games)} of ${count(summary.games_planned)}`],
    ["State", summary.running ? "being played" : isComplete ? "finished" : "stopped"],
    ["Games per pair", details.games_per_pair], ["Random opening plies", details.openings],
    ["First-move advantage", details.advantage === null ? "–" : `${elo(details.advantage)} Elo`],
  ];
  byId("facts").replaceChildren(...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
  byId("links").replaceChildren(linkTo("replay", { source: tournament }, "View its games"));
  byId("note").textContent = details.note;
  byId("figure").replaceChildren(ratings.length ? figure(ratings, byId("figure").clientWidth) : "");
  byId("ratings").replaceChildren(ratings.length ? ratingTable(ratings) : "");
  byId("cross").replaceChildren(ratings.length ? crossTable(ratings, details.table) : "");
}

function ratingTable(ratings) {
  const rows = ratings.map((each, rank) => [
    rank + 1, el("span", { class: "name" }, each.player), elo(each.elo), `${elo(each.low)} to ${elo(each.high)}`,
    count(each.games), count(each.distinct_games), percent(each.score_rate, 1), percent(each.draw_rate, 1),
    linkTo("replay", { source: tournament, player: each.player }, "games", { "aria-label": `Games of ${each.player}` }),
  ]);
  const headings = ["rank", "player", "Elo", "95 % interval", "games", "distinct", "points per game", "draws", "games"];
  return table(headings, rows, { numbers: [0, 2, 3, 4, 5, 6, 7], caption: "Ratings" });
}

/** Ratings as dots with error bars, strongest at the top. */
function figure(ratings, room) {
  const width = Math.min(room, WIDEST);
  const left = Math.min(240, 0.42 * width);
  const low = Math.min(...ratings.map((each) => each.low));
  const high = Math.max(...ratings.map((each) => each.high));
  const x = (value) => left + ((value - low) / (high - low || 1)) * (width - left - MARGIN);
  const height = ROW * ratings.length + 34;
  const step = [10, 20, 50, 100, 200, 500, 1000, 2000].find((each) => (high - low) / each <= width / 60) ?? 5000;
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) {
    ticks.push(svg("line", { x1: x(value), x2: x(value), y1: 4, y2: height - 28 }));
    ticks.push(svg("text", { class: "soft", x: x(value), y: height - 12, "text-anchor": "middle" }, elo(value)));
  }
  const rows = ratings.map((each, number) => {
    const y = ROW * number + 16;
    return svg(
      "g",
      {},
      svg("title", {}, `${each.player}: ${elo(each.elo)} (${elo(each.low)} to ${elo(each.high)})`),
      svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, shortened(each.player, left / 7.4)),
      svg("line", { class: "error-bar", x1: x(each.low), x2: x(each.high), y1: y, y2: y }),
      svg("line", { class: "error-bar", x1: x(each.low), x2: x(each.low), y1: y - 4, y2: y + 4 }),
      svg("line", { class: "error-bar", x1: x(each.high), x2: x(each.high), y1: y - 4, y2: y + 4 }),
      svg("circle", { cx: x(each.elo), cy: y, r: 4.5 }),
    );
  });
  const best = ratings[0];
  const label = `Elo with 95 % intervals: ${best.player} leads ${ratings.length} players with ${elo(best.elo)}; see the table for all ratings`;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ticks, rows);
}

const shortened = (name, most) => (name.length > most ? `…${name.slice(1 - Math.floor(most))}` : name);

function crossTable(ratings, cells) {
  const rows = cells.map((row, i) => [
    el("span", { class: "name" }, `${i + 1}. ${ratings[i].player}`),
    ...row.map((pair, j) => (pair ? cell(ratings[i].player, ratings[j].player, pair) : "")),
  ]);
  const headings = ["player", ...ratings.map((_, i) => String(i + 1))];
  return table(headings, rows, { caption: "Points per game for every pair" });
}

function cell(player, opponent, pair) {
  const { points, low, high, games, distinct_games: distinct } = pair;
  const label = `${player} against ${opponent}: ${interval(points, low, high)} in ${games} games, ${distinct} distinct`;
  const link = linkTo("replay", { source: tournament, player, opponent }, percent(points), { "aria-label": label, title: label });
  link.style.setProperty("--share", (0.05 + 0.4 * points).toFixed(2));
  return link;
}

if (hashParams().tournament) addEventListener("hashchange", keepShowing(load, show, REFRESH_SECONDS));
else goTo("tournaments", {});
