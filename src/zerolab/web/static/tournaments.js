// Tournaments page: a list of tournaments.

import { get } from "./lib/api.js";
import { count, keepShowing, linkTo } from "./lib/archive.js";
import { byId, el, table } from "./lib/dom.js";

const REFRESH_SECONDS = 4;

function show(tournaments) {
  byId("nothing").hidden = tournaments.length > 0;
  const focused = document.activeElement?.id;
  const rows = tournaments.map((each, number) => [
    linkTo("tournament", { tournament: each.tournament }, each.tournament, { id: `tournament-${number}` }),
    each.game, each.players, `${count(each.games)} of ${count(each.games_planned)}`, state(each),
  ]);
  const headings = ["tournament", "game", "players", "games", "state"];
  byId("tournaments").replaceChildren(rows.length ? table(headings, rows, { numbers: [2, 3], caption: "Tournaments" }) : "");
  if (focused) byId(focused)?.focus();
}

function state(each) {
  if (each.problem) return el("span", { class: "bad" }, `damaged: ${each.problem}`);
  if (each.running) return el("span", { class: "good" }, "being played");
  return each.games < each.games_planned ? "stopped" : "finished";
}

keepShowing(() => get("/tournaments"), show, REFRESH_SECONDS);
