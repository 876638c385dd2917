// Tournaments page: a list of tournaments, and a form for starting one.

import { get, post } from "./lib/api.js";
import { count, dateOf, goTo, keepShowing, linkTo } from "./lib/archive.js";
import { GameChooser, latestAgents } from "./lib/choosers.js";
import { byId, checkFolderName, el, replaceContent, showError, table } from "./lib/dom.js";

const REFRESH_SECONDS = 5;
const chooser = new GameChooser(byId("game"), () => suggestPlayers());
const loadAgents = latestAgents();

function show(tournaments) {
  byId("nothing").hidden = tournaments.length > 0;
  tournaments.sort((a, b) => b.latest_progress_time - a.latest_progress_time);
  showDamaged(tournaments.filter((each) => each.problem));
  const rows = tournaments.filter((each) => !each.problem).map((each) => [
    linkTo("tournament", { tournament: each.tournament }, shortened(each.tournament), { title: each.tournament }),
    each.winner, each.game, each.player_count, `${count(each.stored_games)} of ${count(each.planned_games)}`, stateOf(each),
    dateOf(each.latest_progress_time),
  ]);
  const headings = ["tournament", "winner", "game", "players", "games", "state", "latest game"];
  const none = tournaments.length ? el("p", { class: "soft" }, "All tournaments are damaged.") : "";
  replaceContent(byId("tournaments"), rows.length ? table(headings, rows, { numbers: [3, 4], caption: "Tournaments", isDense: true }) : none);
}

/** List damaged tournaments separately, because they have no results. */
function showDamaged(tournaments) {
  byId("damaged-part").hidden = !tournaments.length;
  byId("damaged-title").textContent = `${tournaments.length} damaged`;
  const rows = tournaments.map((each) => [each.tournament, el("span", { class: "bad" }, each.problem)]);
  byId("damaged").replaceChildren(table(["tournament", "problem"], rows, { caption: "Damaged tournaments" }));
}

/** Name of a tournament; for an absolute path, only the last three components. */
const shortened = (name) => (name.startsWith("/") ? `…/${name.split("/").slice(-3).join("/")}` : name);

function stateOf(each) {
  if (each.is_running) return el("span", { class: "good" }, "in progress");
  return each.stored_games >= each.planned_games ? "finished" : el("span", { class: "soft" }, "stopped");
}

/** Offer the agents of the selected game. */
async function suggestPlayers() {
  const agents = await loadAgents(chooser.value);
  if (agents === null) return;
  byId("agents").replaceChildren(...agents.map((each) => el("option", { value: each.spec }, each.label)));
}

/** Add the agent in the field to the list of players. */
function addPlayer() {
  const spec = byId("player").value.trim();
  if (!spec) return;
  const lines = players();
  if (!lines.includes(spec)) byId("players").value = [...lines, spec].join("\n");
  byId("player").value = "";
}

const players = () => byId("players").value.split("\n").map((each) => each.trim()).filter(Boolean);

async function prepareForm() {
  const { allow_training: isAllowed } = await get("/server");
  byId("forbidden").hidden = isAllowed;
  if (!isAllowed) return;
  await chooser.load("connect_four:6x7");
  byId("start").hidden = false;
  await suggestPlayers();
}

byId("add").addEventListener("click", addPlayer);
byId("player").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  addPlayer();
});
byId("name").addEventListener("input", () => checkFolderName(byId("name")));
byId("start").addEventListener("submit", async (event) => {
  event.preventDefault();
  addPlayer();
  try {
    showError(byId("start-error"), "");
    const { tournament } = await post("/tournaments/start", {
      name: byId("name").value, game: chooser.value, players: players(),
      games_per_pair: Number(byId("games").value), opening_plies: Number(byId("openings").value), seed: Number(byId("seed").value),
    });
    goTo("tournament", { tournament });
  } catch (error) {
    showError(byId("start-error"), error);
  }
});

keepShowing(() => get("/tournaments"), show, REFRESH_SECONDS);
prepareForm().catch((error) => showError(byId("error"), error));
