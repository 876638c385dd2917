// Analyse page: live searches, exact scores, a search tree, and the value over the game.

import { Socket, post } from "./lib/api.js";
import { hashAll } from "./lib/archive.js";
import { Board, status } from "./lib/board.js";
import { lineChart } from "./lib/chart.js";
import { AgentChooser, GameChooser, agentName, defaultAgent, latestAgents, otherAgent } from "./lib/choosers.js";
import { AgentColumn } from "./lib/columns.js";
import { announce, byId, drawsSoon, el, guarded, hashParams, keepChoice, keepContent, setHashParams, showError } from "./lib/dom.js";
import { Editor } from "./lib/editor.js";
import { EvaluationBar, agentEvaluation, exactEvaluation, finalEvaluation } from "./lib/evaluation.js";
import { Explorer } from "./lib/explorer.js";
import { GameValues } from "./lib/game_values.js";
import { ghostsOf, hintLegend, hintsOf } from "./lib/hints.js";
import { moveList, movesIn } from "./lib/moves.js";
import { acceptAgents, copyText } from "./lib/sharing.js";
import { solutionText } from "./lib/thoughts.js";
import { Tree } from "./lib/tree.js";

const MOST_AGENTS = 4;
const REFRESH_PAUSE = 400; // milliseconds between requests for the root of a growing tree

const state = {
  game: "", setUp: null, line: [], ply: 0, position: null, agents: [], known: [],
  analyses: {}, solution: null, values: new Map(), request: 0, solving: 0, lastRefresh: 0,
  nodeRequest: 0, wantedPaths: [], // the requested path, followed by waiting paths
  columns: [], preview: [],
  wanted: null, // game, setUp, line, ply and agents that the server is being asked about
  chosenGame: null, // game in the menu that is not shown yet
};
const loadAgents = latestAgents();

const board = new Board(byId("board"), { onMove: (move) => play(move), sides: byId("sides"), sharesArrows: true });
const bar = new EvaluationBar(byId("board"));
const editor = new Editor(
  board,
  { toggle: byId("edit"), clear: byId("clear"), mover: byId("mover") },
  {
    position: () => state.position,
    onStart: () => (state.wanted = null), // a late answer would end the editing
    onChange: (setUp) => guarded(() => post("/position", { game: state.game, starting_board: setUp })),
    onDone: (setUp) => guarded(() => useEdited(setUp)),
  },
);
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
  const line = params.moves ? params.moves.split(",") : [];
  const ply = params.ply ? Math.round(Number(params.ply)) || 0 : line.length;
  const setUp = params.board ? { board: params.board.split("/"), first_to_move: params.mover !== "second" } : null;
  state.agents = hashAll("agents").filter(Boolean);
  const options = [...byId("simulations").options].map((each) => each.value);
  if (options.includes(params.simulations)) byId("simulations").value = params.simulations;
  const known = await loadAgents(state.game);
  if (known === null) return; // the user has already chosen another game
  state.known = known;
  if (!state.agents.length) state.agents = [defaultAgent(known)];
  showAgents();
  if (state.wanted !== null || state.position !== null) {
    ask(); // the user has already gone elsewhere
    return;
  }
  await show({ setUp, line, ply: Math.max(0, Math.min(ply, line.length)) });
}

const positionRequest = (ply = state.ply) => requestFor({ ...state, ply });

const requestFor = ({ game, setUp, line, ply }) => ({
  game, moves: line.slice(0, ply), ...(setUp ? { starting_board: setUp } : {}),
});

async function changeGame(game, agent = null) {
  state.chosenGame = game;
  const known = await loadAgents(game);
  if (known === null || state.chosenGame !== game) return;
  const agents = [agent ?? defaultAgent(known)];
  await show({ game, setUp: null, line: [], ply: 0, values: new Map(), known, agents });
}

/** Let the menu show the game of the board if a change to another game has not taken place. */
function settleMenu() {
  if (state.chosenGame !== null && state.chosenGame !== state.game) chooser.select(state.game);
  state.chosenGame = null;
}

function showAgents() {
  const rows = state.agents.map((spec, number) => {
    const row = el("div", { class: "row fields" });
    const menu = new AgentChooser(row, `Agent ${number + 1}`, {
      onChange: (selected) => {
        state.agents[number] = selected;
        if (number === 0) state.values = new Map();
        guarded(ask);
      },
    });
    menu.show(state.known, spec);
    if (state.agents.length > 1) row.append(removal(number));
    return row;
  });
  byId("agents").replaceChildren(...rows);
  byId("add").disabled = state.agents.length >= MOST_AGENTS;
}

function removal(number) {
  const remove = () => {
    state.agents.splice(number, 1);
    state.values = number === 0 ? new Map() : state.values;
    showAgents();
    guarded(ask);
  };
  return el("button", { type: "button", onclick: remove, "aria-label": `Remove agent ${number + 1}` }, "Remove");
}

acceptAgents(byId("bring"), byId("error"), async ({ spec, game }) => {
  if (game !== latest().game) {
    await chooser.load(game);
    await changeGame(game, spec);
    return;
  }
  const known = await loadAgents(game);
  if (known !== null) await show({ ...latest(), known, agents: [spec, ...latest().agents.slice(1)], values: new Map() });
});

byId("add").addEventListener("click", () => {
  state.agents.push(otherAgent(state.known, state.agents));
  showAgents();
  guarded(ask);
});
for (const id of ["simulations", "live", "solve", "seconds"]) byId(id).addEventListener("change", () => guarded(ask));

for (const id of ["by-visits", "ranks"]) keepChoice(byId(id), id, () => draw());

byId("begin").addEventListener("click", () => goTo(0));
byId("back").addEventListener("click", () => goTo(Math.max(0, latest().ply - 1)));
byId("forward").addEventListener("click", () => goTo(Math.min(latest().line.length, latest().ply + 1)));
byId("end").addEventListener("click", () => goTo(latest().line.length));
byId("flip").addEventListener("click", () => {
  board.flip();
  draw();
});
byId("link").addEventListener("click", () => copyText(location.href, "Link copied.", byId("pasted")));
byId("copy").addEventListener("click", () => copyText(state.line.join(" "), "Moves copied.", byId("pasted")));
byId("paste").addEventListener("click", () =>
  guarded(async () => {
    const line = movesIn(byId("pasted").value);
    await show({ line, ply: line.length });
  }),
);
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey) return;
  const steps = { ArrowLeft: "back", ArrowRight: "forward", Home: "begin", End: "end", f: "flip" };
  if (event.key in steps) byId(steps[event.key]).click();
});

/** Show the edited position, or the earlier one if the edited one is impossible. */
async function useEdited(setUp) {
  try {
    await show({ setUp, line: [], ply: 0, values: new Map() });
  } catch (error) {
    editor.stop();
    draw();
    throw error;
  }
}

const play = (move) => playLine([move]);

/** Play all moves in a line. */
async function playLine(moves) {
  const ply = state.ply + moves.length;
  const isSame = state.line.slice(state.ply, ply).join() === moves.join();
  const line = isSame ? state.line : [...state.line.slice(0, state.ply), ...moves];
  const { game, known, agents } = latest();
  if (!editor.isOn) await guarded(() => show(game === state.game ? { known, agents, line, ply } : { line, ply }));
}

/** Preview a line as pale pieces on the board; without moves, show the line kept by a click, if any. */
function preview(moves) {
  const kept = state.columns.map((each) => each.line.chosen).find((each) => each.length);
  state.preview = moves.length ? moves : (kept ?? []);
  drawBoard();
}

async function goTo(ply) {
  if (state.position !== null && ply !== latest().ply && !editor.isOn) await guarded(() => show({ ...latest(), ply }));
}

/** State that is shown or, while the server is being asked, the requested one. */
function latest() {
  const { game, setUp, line, ply, known, agents } = state;
  return state.wanted ?? { game, setUp, line, ply, known, agents };
}

/**
 * Apply changes, and show and analyse the position after them.
 *
 * Nothing changes if the server rejects the position or does not respond, or if the user goes
 * elsewhere in the meantime.
 */
async function show(changes = {}) {
  state.wanted = null;
  const wanted = { ...latest(), ...changes };
  state.wanted = wanted;
  if (wanted.game !== state.chosenGame) settleMenu(); // the user has done something else since the choice
  let position = null;
  try {
    position = await post("/position", requestFor(wanted));
  } catch (error) {
    if (state.wanted !== wanted) return;
    state.wanted = null;
    if (wanted.game === state.chosenGame) settleMenu();
    const isStart = !wanted.line.length && wanted.setUp === null;
    if (state.position === null && !isStart && error.status !== 0) await show(); // the URL is wrong
    throw error;
  }
  if (state.wanted !== wanted) return;
  forgetValues(wanted.line);
  Object.assign(state, wanted, { position, wanted: null });
  editor.stop();
  if (wanted.game === state.chosenGame) settleMenu();
  if (changes.agents) showAgents();
  const { last_move: last, pass_note: note } = state.position;
  announce(`${last ? `After ${last}. ` : ""}${status(state.position)} ${note}`);
  ask();
}

/** Forget the values of positions that are not in a new line. */
function forgetValues(line) {
  const different = line.findIndex((move, ply) => move !== state.line[ply]);
  const common = different < 0 ? line.length : different;
  for (const ply of [...state.values.keys()]) if (ply > common) state.values.delete(ply);
}

/** Save the displayed analysis in the URL. */
function remember() {
  setHashParams({
    game: state.game, moves: state.line.join(","), ply: state.ply === state.line.length ? "" : state.ply,
    board: state.setUp?.board.join("/") ?? "", mover: state.setUp?.first_to_move === false ? "second" : "",
    agents: state.agents, simulations: byId("simulations").value,
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
      simulations: Number(byId("simulations").value) || null,
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
  byId("solution").textContent = solutionText(state.position, state.solution, state.solving !== 0);
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
  return first && agentEvaluation(position, first.value, nameOf(0));
}

/** Name of an agent. If the menu overrides the simulations in its spec, the name states the new number. */
function nameOf(number) {
  const spec = state.agents[number];
  const used = state.analyses[spec]?.agent;
  const isReplaced = used && byId("simulations").value !== "none" && /^\w+:\d|simulations=/.test(spec);
  return agentName(isReplaced ? used : spec, state.known);
}

function drawThoughts() {
  const options = { withBoard: state.agents.length > 1, isFlipped: board.isFlipped, ...hintOptions() };
  const analyses = state.agents.map((agent) => state.analyses[agent]);
  const isOver = state.position.result !== null;
  const isAsked = !isOver && byId("live").checked;
  state.columns.forEach((column, number) => column.name(nameOf(number)));
  const none = el("p", { class: "soft" }, isOver ? "The game is over." : "No search has been requested.");
  keepContent(byId("thoughts"), ...(isAsked ? state.columns.map((each) => each.element) : [none]));
  // The columns' boards are on the page by now, so text sizes are known.
  state.columns.forEach((column, number) => analyses[number] && column.show(state.position, analyses[number], state.solution, options));
}

addEventListener("hashchange", () => location.reload());
guarded(begin);
