// Analyse page: live searches, exact scores, a search tree, and the value over the game.

import { Socket, post } from "./lib/api.js";
import { Board, status } from "./lib/board.js";
import { lineChart } from "./lib/chart.js";
import { AgentChooser, GameChooser, agentName, agentsOf, defaultAgent } from "./lib/choosers.js";
import { AgentColumn } from "./lib/columns.js";
import { announce, byId, drawsSoon, el, guarded, hashParams, keepChoice, keepContent, setHashParams, showError } from "./lib/dom.js";
import { Editor } from "./lib/editor.js";
import { EvaluationBar, agentEvaluation, exactEvaluation, finalEvaluation } from "./lib/evaluation.js";
import { Explorer } from "./lib/explorer.js";
import { GameValues } from "./lib/game_values.js";
import { ghostsOf, hintLegend, hintsOf } from "./lib/hints.js";
import { moveList, movesIn } from "./lib/moves.js";
import { acceptAgents } from "./lib/sharing.js";
import { scoreText } from "./lib/thoughts.js";
import { Tree } from "./lib/tree.js";

const MOST_AGENTS = 4;
const REFRESH_PAUSE = 400; // milliseconds between requests for the root of a growing tree

const state = {
  game: "", setUp: null, line: [], ply: 0, position: null, agents: [], known: [],
  analyses: {}, solution: null, values: new Map(), request: 0, solving: 0, lastRefresh: 0,
  nodeRequest: 0, wantedPaths: [], // the requested path, followed by waiting paths
  columns: [], preview: [],
};

const board = new Board(byId("board"), { onMove: (move) => play(move), sides: byId("sides") });
const bar = new EvaluationBar(byId("board"));
const editor = new Editor(board, () => guarded(editorChanged));
const chooser = new GameChooser(byId("game"), (game) => guarded(() => changeGame(game)));
const tree = new Tree(byId("tree"), (path) => requestNode(path));
const explorer = new Explorer(
  {
    host: byId("simulation"), back: byId("simulation-back"), next: byId("simulation-next"),
    number: byId("simulation-number"), hide: byId("simulation-hide"), error: byId("simulation-error"),
  },
  { request: () => ({ position: positionRequest(), agent: state.agents[0] }), onPath: preview },
);
const gameValues = new GameValues(() => draw());
const drawSoon = drawsSoon(() => draw());
const socket = new Socket("/analysis/live", { onMessage: receive, onOpen: () => ask() });

async function begin() {
  const params = hashParams();
  await chooser.load(params.game);
  state.game = params.game ?? chooser.value;
  state.line = params.moves ? params.moves.split(",") : [];
  const ply = params.ply ? Math.round(Number(params.ply)) || 0 : state.line.length;
  state.ply = Math.max(0, Math.min(ply, state.line.length));
  if (params.board) state.setUp = { board: params.board.split("/"), first_to_move: params.mover !== "second" };
  state.agents = params.agents ? params.agents.split(" ") : [];
  const options = [...byId("simulations").options].map((each) => each.value);
  if (options.includes(params.simulations)) byId("simulations").value = params.simulations;
  state.known = await agentsOf(state.game);
  if (!state.agents.length) state.agents = [defaultAgent(state.known)];
  showAgents();
  await show();
}

const positionRequest = (ply = state.ply) => ({
  game: state.game, moves: state.line.slice(0, ply), ...(state.setUp ? { starting_board: state.setUp } : {}),
});

async function changeGame(game, agent = null) {
  Object.assign(state, { game, setUp: null, line: [], ply: 0, values: new Map() });
  state.known = await agentsOf(game);
  state.agents = [agent ?? defaultAgent(state.known)];
  showAgents();
  await show();
}

function showAgents() {
  const rows = state.agents.map((spec, number) => {
    const row = el("div", { class: "row fields" });
    const menu = new AgentChooser(row, `Agent ${number + 1}`, {
      onChange: (selected) => {
        state.agents[number] = selected;
        if (number === 0) state.values = new Map();
        ask();
      },
    });
    menu.show(state.known, spec);
    if (state.agents.length > 1) row.append(removal(number));
    return row;
  });
  byId("agents").replaceChildren(...rows);
  byId("add").disabled = state.agents.length >= MOST_AGENTS;
}

/** Spec of the first agent in the menu that is not shown, not even as its run's best network. */
function nextAgent() {
  const networkOf = ({ spec, run, iteration }) => (run ? `${run}@${iteration}` : spec);
  const shown = state.known.filter((each) => state.agents.includes(each.spec)).map(networkOf);
  return (state.known.find((each) => !shown.includes(networkOf(each))) ?? state.known[0]).spec;
}

function removal(number) {
  const remove = () => {
    state.agents.splice(number, 1);
    state.values = number === 0 ? new Map() : state.values;
    showAgents();
    ask();
  };
  return el("button", { type: "button", onclick: remove, "aria-label": `Remove agent ${number + 1}` }, "Remove");
}

acceptAgents(byId("bring"), byId("error"), async ({ spec, game }) => {
  if (game === state.game) {
    state.known = await agentsOf(game);
    state.agents[0] = spec;
    state.values = new Map();
    showAgents();
    await show();
    return;
  }
  await chooser.load(game);
  await changeGame(game, spec);
});

byId("add").addEventListener("click", () => {
  state.agents.push(nextAgent());
  showAgents();
  ask();
});
for (const id of ["simulations", "live", "solve", "seconds"]) byId(id).addEventListener("change", () => ask());

for (const id of ["by-visits", "ranks"]) keepChoice(byId(id), id, () => draw());

byId("begin").addEventListener("click", () => goTo(0));
byId("back").addEventListener("click", () => goTo(Math.max(0, state.ply - 1)));
byId("forward").addEventListener("click", () => goTo(Math.min(state.line.length, state.ply + 1)));
byId("end").addEventListener("click", () => goTo(state.line.length));
byId("flip").addEventListener("click", () => {
  board.flip();
  draw();
});
byId("link").addEventListener("click", () => copy(location.href, "Link copied."));
byId("copy").addEventListener("click", () => copy(state.line.join(" "), "Moves copied."));
byId("paste").addEventListener("click", () =>
  guarded(async () => {
    const line = movesIn(byId("pasted").value);
    await post("/position", { ...positionRequest(0), moves: line });
    Object.assign(state, { line, ply: line.length, values: new Map() });
    await show();
  }),
);
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea, .target") || event.ctrlKey || event.metaKey) return;
  const steps = { ArrowLeft: "back", ArrowRight: "forward", Home: "begin", End: "end", f: "flip" };
  if (event.key in steps) byId(steps[event.key]).click();
});

byId("edit").addEventListener("click", () => {
  const isOn = !editor.isOn;
  byId("edit").setAttribute("aria-pressed", String(isOn));
  byId("edit").textContent = isOn ? "Done" : "Set up pieces";
  byId("clear").disabled = !isOn;
  byId("mover").disabled = !isOn;
  if (isOn) {
    byId("mover").value = state.position.first_to_move ? "first" : "second";
    editor.start(state.position);
  } else {
    guarded(useEdited);
  }
});
byId("clear").addEventListener("click", () => editor.clear());
byId("mover").addEventListener("change", () => guarded(editorChanged));

async function editorChanged() {
  await post("/position", { game: state.game, starting_board: editor.setUp(byId("mover").value === "first") });
}

async function useEdited() {
  editor.stop();
  const setUp = editor.setUp(byId("mover").value === "first");
  try {
    await post("/position", { game: state.game, starting_board: setUp });
    Object.assign(state, { setUp, line: [], ply: 0, values: new Map() });
  } finally {
    await show();
  }
}

async function copy(text, message) {
  try {
    await navigator.clipboard.writeText(text);
    announce(message);
    showError(byId("error"), "");
  } catch {
    byId("pasted").value = text;
    byId("pasted").closest("details").open = true;
    byId("pasted").select();
  }
}

const play = (move) => playLine([move]);

/** Play all moves in a line. */
async function playLine(moves) {
  await guarded(async () => {
    const ply = state.ply + moves.length;
    if (state.line.slice(state.ply, ply).join() !== moves.join()) {
      state.line = [...state.line.slice(0, state.ply), ...moves];
      for (const each of [...state.values.keys()]) if (each > state.ply) state.values.delete(each);
    }
    state.ply = ply;
    await show();
  });
}

/** Preview a line as pale pieces on the board; without moves, show the line kept by a click, if any. */
function preview(moves) {
  const kept = state.columns.map((each) => each.line.chosen).find((each) => each.length);
  state.preview = moves.length ? moves : (kept ?? []);
  drawBoard();
}

async function goTo(ply) {
  if (ply === state.ply) return;
  state.ply = ply;
  await guarded(show);
}

async function show() {
  Object.assign(state, { analysing: NaN, solving: 0 }); // messages about the previous position are ignored
  state.position = await post("/position", positionRequest());
  const { last_move: last, pass_note: note } = state.position;
  announce(`${last ? `After ${last}. ` : ""}${status(state.position)} ${note}`);
  ask();
}

/** Save the displayed analysis in the URL. */
function remember() {
  setHashParams({
    game: state.game, moves: state.line.join(","), ply: state.ply === state.line.length ? "" : state.ply,
    board: state.setUp?.board.join("/") ?? "", mover: state.setUp?.first_to_move === false ? "second" : "",
    agents: state.agents.join(" "), simulations: byId("simulations").value,
  });
}

/** Request analyses and exact scores of the position. Responses to earlier requests are ignored. */
function ask() {
  if (!state.position) return;
  remember();
  Object.assign(state, { analyses: {}, solution: null, nodeRequest: 0, wantedPaths: [], preview: [] });
  state.columns = state.agents.map(() => new AgentColumn({ onPick: play, onGo: playLine, onLine: preview }));
  tree.clear();
  explorer.follow();
  gameValues.want({ position: positionRequest(state.line.length), agent: state.agents[0] });
  state.request += 1;
  socket.send({ id: state.request, do: "stop" });
  state.solving = 0;
  const isOver = state.position.result !== null;
  if (!isOver && byId("live").checked && state.agents.every(Boolean)) {
    state.request += 1;
    socket.send({
      id: state.request, do: "analyse", position: positionRequest(), agents: state.agents,
      simulations: Number(byId("simulations").value),
    });
  }
  state.analysing = state.request;
  if (!isOver && byId("solve").checked) {
    state.request += 1;
    state.solving = state.request;
    socket.send({ id: state.request, do: "solve", position: positionRequest(), seconds: Number(byId("seconds").value) });
  }
  draw();
}

function receive(message) {
  if (message.id === state.nodeRequest) receiveNode(message);
  else if (message.id === state.solving && message.solution) state.solution = message.solution;
  else if (message.id === state.analysing && message.analysis) receiveAnalysis(message);
  else if (message.error && message.id >= state.analysing) showError(byId("error"), message.error);
  else if (message.id === state.analysing && message.done) refreshNodes();
  else return;
  drawSoon();
}

function receiveAnalysis(message) {
  const isFirst = !(message.agent in state.analyses);
  state.analyses[message.agent] = message.analysis;
  if (message.agent !== state.agents[0]) return;
  const { value } = message.analysis;
  if (value !== null && Math.abs(value) <= 1) {
    state.values.set(state.ply, state.position.first_to_move ? value : -value);
  }
  if (message.analysis.simulations === null) return; // the agent does not search
  const now = performance.now();
  if (isFirst || (tree.isOpen && now - state.lastRefresh > REFRESH_PAUSE)) {
    state.lastRefresh = now;
    requestNode([]);
  }
}

/** Refresh all open tree nodes after the search has ended. */
function refreshNodes() {
  if (state.analyses[state.agents[0]]?.simulations) for (const path of tree.paths) requestNode(path);
}

/** Request a node of the first agent's tree once earlier requests have been answered. */
function requestNode(path) {
  state.wantedPaths.push(path);
  if (state.wantedPaths.length === 1) sendNodeRequest();
}

function sendNodeRequest() {
  state.request += 1;
  state.nodeRequest = state.request;
  socket.send({ id: state.nodeRequest, do: "node", agent: state.agents[0], path: state.wantedPaths[0] });
}

function receiveNode(message) {
  if (message.node) tree.show(message.node);
  else showError(byId("error"), message.error);
  state.wantedPaths.shift();
  state.nodeRequest = 0;
  if (state.wantedPaths.length) sendNodeRequest();
}

function draw() {
  if (!state.position || editor.isOn) return;
  drawBoard();
  byId("status").textContent = `${status(state.position)} ${state.position.pass_note}`;
  moveList(byId("moves"), state.line, state.ply, goTo);
  drawThoughts();
  drawSolution();
  drawValues();
}

/** Draw the values for all positions and those from searches of the positions viewed. */
function drawValues() {
  const searched = [...state.values].sort((a, b) => a[0] - b[0]);
  const series = [
    { name: "all positions at once", points: gameValues.points },
    { name: "searches of the positions viewed", points: searched },
  ].filter((each) => each.points.length);
  lineChart(byId("values"), series, {
    xLabel: "ply", yLabel: "value for X", range: [-1.05, 1.05], mark: series.length ? state.ply : null, onPick: goTo,
  });
  byId("values-note").textContent = gameValues.problem;
}

const hintOptions = () => ({ byVisits: byId("by-visits").checked, withRanks: byId("ranks").checked });

function drawBoard() {
  if (editor.isOn) return;
  const { position, preview: line, solution } = state;
  const first = state.analyses[state.agents[0]] ?? null;
  board.show(position, { hints: line.length ? {} : hintsOf(first, solution, hintOptions()), overlay: ghostsOf(position, line), showLegal: !line.length });
  bar.show(evaluation(first), board);
  byId("legend").replaceChildren(first || solution?.scores ? hintLegend(first, solution) : "");
}

/** Evaluation of the position: the exact result if known, otherwise the first agent's value. */
function evaluation(first) {
  const { position, solution } = state;
  if (position.result !== null) return finalEvaluation(position);
  if (solution?.scores) return exactEvaluation(position, solution.scores);
  return first && agentEvaluation(position, first.value, agentName(state.agents[0], state.known));
}

function drawThoughts() {
  const options = { withBoard: state.agents.length > 1, isFlipped: board.isFlipped, ...hintOptions() };
  const analyses = state.agents.map((agent) => state.analyses[agent]);
  const isOver = state.position.result !== null;
  const isAsked = !isOver && byId("live").checked;
  state.columns.forEach((column, number) => column.name(agentName(state.agents[number], state.known)));
  const none = el("p", { class: "soft" }, isOver ? "The game is over." : "No search has been requested.");
  keepContent(byId("thoughts"), ...(isAsked ? state.columns.map((each) => each.element) : [none]));
  // The columns' boards are on the page by now, so text sizes are known.
  state.columns.forEach((column, number) => analyses[number] && column.show(state.position, analyses[number], state.solution, options));
}

function drawSolution() {
  const element = byId("solution");
  if (state.position.result !== null) element.textContent = "";
  else if (!state.solving) element.textContent = "Perfect play: not requested.";
  else if (state.solution === null) element.textContent = "Perfect play: solving …";
  else if (state.solution.unsolved_reason) element.textContent = `Perfect play is unknown: ${state.solution.unsolved_reason}.`;
  else {
    const { best_moves: best, scores } = state.solution;
    element.textContent = `Under perfect play, ${state.position.first_to_move ? "X" : "O"} ${scoreText(scores[best[0]])}. Best: ${best.join(", ")}.`;
  }
}

addEventListener("hashchange", () => location.reload());
guarded(begin);
