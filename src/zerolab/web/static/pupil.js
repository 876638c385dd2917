// My agent page: the agent that a pupil enters in the class tournament.

import { get, post, postFile } from "./lib/api.js";
import { count, keepShowing, linkTo, stateOfTournament } from "./lib/archive.js";
import { agentsOf, title } from "./lib/choosers.js";
import { announce, byId, el, guarded } from "./lib/dom.js";

const REFRESH_SECONDS = 3;
let game = "";

const show = keepShowing(() => get("/class/mine"), draw, REFRESH_SECONDS);

function draw(own) {
  byId("content").hidden = false;
  byId("greeting").textContent = `Hello, ${own.name}. Your class is playing ${title(own.game)}.`;
  byId("playouts").max = own.max_playouts;
  byId("agent").textContent = own.agent ? `Your agent: ${own.agent}.` : "You have not chosen an agent yet.";
  byId("problem").textContent = own.problem;
  drawTournament(own);
  if (own.game !== game) guarded(() => drawNetworks(own));
}

function drawTournament({ name, tournament }) {
  const links = [linkTo("wall", {}, "Standings")];
  let text = "The teacher has not started a tournament yet.";
  if (tournament) {
    const games = `${count(tournament.stored_games)} of ${count(tournament.planned_games)} games`;
    text = `Tournament ${tournament.number}: ${games}, ${stateOfTournament(tournament)}.`;
    if (tournament.is_running) text += " If you choose a new agent now, it will play in the next tournament.";
    if (tournament.stored_games) links.push(linkTo("replay", { source: tournament.folder, player: name }, "View your games"));
  }
  byId("tournament").textContent = text;
  byId("links").replaceChildren(...links);
}

/** Offer the networks of runs of this game, and the pupil's own file. */
async function drawNetworks(own) {
  game = own.game;
  const agents = (await agentsOf(own.game)).filter((each) => each.run);
  const file = own.agent.includes(".zerolab") ? [{ spec: own.agent.split("?")[0], label: "my file" }] : [];
  const offered = [...file, ...agents];
  const selected = byId("network").value;
  byId("network").replaceChildren(...offered.map(({ spec, label }) => el("option", { value: spec }, label)));
  if (offered.some((each) => each.spec === selected)) byId("network").value = selected;
  byId("kind").querySelector('[value="network"]').disabled = offered.length === 0;
}

function drawFields() {
  const kind = byId("kind").value;
  byId("network-field").hidden = kind !== "network";
  byId("playouts-field").hidden = byId("playouts").disabled = kind === "random"; // an invalid hidden field would block the form
}

function accept(own) {
  game = "";
  draw(own);
  show();
  announce(byId("agent").textContent);
}

byId("kind").addEventListener("change", drawFields);
byId("choice").addEventListener("submit", (event) => {
  event.preventDefault();
  const kind = byId("kind").value;
  const network = kind === "network" ? byId("network").value : "";
  const playouts = kind === "random" ? {} : { playouts: Number(byId("playouts").value) };
  guarded(async () => accept(await post("/class/mine", { kind, network, ...playouts })));
});
byId("file").addEventListener("change", () =>
  guarded(async () => {
    const [file] = byId("file").files;
    if (file) accept(await postFile("/class/file", file));
    byId("file").value = "";
  }),
);
byId("kind").value = "mcts";
drawFields();
