// Class page, for the teacher: the pupils' agents and their tournament.

import { get, post } from "./lib/api.js";
import { count, keepShowing, linkTo, stateOfTournament } from "./lib/archive.js";
import { GameChooser } from "./lib/choosers.js";
import { announce, byId, el, guarded, table } from "./lib/dom.js";

const REFRESH_SECONDS = 3;
let chosen = "";

const chooser = new GameChooser(byId("game"), changeGame);
const show = keepShowing(() => get("/class/manage"), draw, REFRESH_SECONDS);

function draw(group) {
  byId("content").hidden = false;
  const rows = group.pupils.map(({ name, agent, problem }) => [
    name, agent || el("span", { class: "soft" }, "none yet"), problem ? el("span", { class: "warn" }, problem) : "",
  ]);
  const holders = group.pupils.filter((each) => each.agent);
  byId("ready").textContent = `${holders.length} of ${group.pupils.length} pupils ${holders.length === 1 ? "has" : "have"} an agent.`;
  byId("pupils").replaceChildren(table(["Pupil", "Agent", "Problem"], rows, { caption: "Pupils and their agents" }));
  drawTournament(group.tournament, holders.filter((each) => !each.problem).length);
  if (group.game !== chosen) guarded(() => chooser.load((chosen = group.game)));
}

function drawTournament(tournament, ready) {
  const isPlaying = tournament?.is_running ?? false;
  const isComplete = !tournament || tournament.stored_games >= tournament.planned_games;
  const links = [linkTo("wall", {}, "Wall: the standings in large type")];
  byId("state").textContent = "No tournament yet.";
  if (tournament) {
    const games = `${count(tournament.stored_games)} of ${count(tournament.planned_games)} games`;
    byId("state").textContent = `Tournament ${tournament.number}, ${tournament.game}: ${stateOfTournament(tournament)}, ${games}. ${tournament.problem}`;
    byId("progress").value = tournament.stored_games / Math.max(1, tournament.planned_games);
    if (tournament.stored_games) links.push(linkTo("replay", { source: tournament.folder }, "View its games"));
  }
  byId("progress").hidden = !isPlaying;
  byId("start").disabled = isPlaying || ready < 2;
  byId("continue").disabled = isPlaying || isComplete;
  byId("stop").disabled = !isPlaying;
  byId("links").replaceChildren(...links);
}

/** Send a change and show the new state. */
async function send(path, body) {
  const group = await post(`/class/manage/${path}`, body);
  if (path === "game") chosen = group.game;
  draw(group);
  show();
}

/** Change the class game; show the previous game again if the server rejects the new one. */
function changeGame(game) {
  return guarded(async () => {
    try {
      await send("game", { game });
      announce(`The class is now playing ${chosen}.`);
    } catch (error) {
      const hasFocus = byId("game").contains(document.activeElement);
      await chooser.load(chosen);
      if (hasFocus) chooser.name.focus();
      throw error;
    }
  });
}

/** Start, continue or stop the tournament. */
function act(action, body = {}) {
  return guarded(async () => {
    await send(action, body);
    announce(byId("state").textContent);
  });
}

byId("settings").addEventListener("submit", (event) => {
  event.preventDefault();
  act("start", { game: chosen, games_per_pair: Number(byId("games").value), opening_plies: Number(byId("openings").value) });
});
byId("continue").addEventListener("click", () => act("continue"));
byId("stop").addEventListener("click", () => act("stop"));
