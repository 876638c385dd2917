// Play page: games between people and agents. The URL contains the whole game, so that it can be
// shared and reloaded.

import { post, retry } from "./lib/api.js";
import { Board, status } from "./lib/board.js";
import { AgentChooser, GameChooser, agentsOf, checkAgent, defaultAgent, latestAgents } from "./lib/choosers.js";
import { announce, byId, guarded, hashParams, keepChoice, setHashParams, showError } from "./lib/dom.js";
import { moveList } from "./lib/moves.js";
import { playerNames, showPlayers, turnOf } from "./lib/players.js";
import { acceptAgents } from "./lib/sharing.js";
import { thoughtTable } from "./lib/thoughts.js";

const board = new Board(byId("board"), { onMove: (move) => play(move) });
const chooser = new GameChooser(byId("game"), (game) => offerAgents(game));
const sides = {
  first: new AgentChooser(byId("first"), "X (moves first)", { withPerson: true }),
  second: new AgentChooser(byId("second"), "O", { withPerson: true }),
};

const loadAgents = latestAgents();

/** Current game. `line` includes moves that were taken back. */
const state = {
  game: "", first: "person", second: "", agents: [], thinking: "", line: [], ply: 0, resigned: null,
  given: 0, seed: 0, position: null, thought: null, waiting: null, request: 0, isBusy: false, isPaused: false,
};

async function begin() {
  const params = hashParams();
  await chooser.load(params.game);
  const game = params.game ?? chooser.value;
  const agents = await agentsOf(game);
  Object.assign(state, {
    game, agents, first: params.x ?? "person", second: params.o ?? defaultAgent(agents),
    thinking: params.thinking ?? "", line: params.moves ? params.moves.split(",") : [],
    resigned: params.resigned ?? null, seed: Number(params.seed) || newSeed(), given: Number(params.given) || 0,
  });
  state.ply = state.line.length;
  byId("thinking").value = state.thinking;
  sides.first.show(agents, state.first);
  sides.second.show(agents, state.second);
  facePerson(state.first, state.second);
  byId("new").disabled = false;
  await show();
}

/** Flip the board if a person plays O against an agent. */
function facePerson(first, second) {
  board.isFlipped = first !== "person" && second === "person";
}

const newSeed = () => Math.floor(Math.random() * 2 ** 31);

/** Offer the agents of a newly chosen game; replace agents that cannot play it with the default. */
async function offerAgents(game, second = sides.second.value) {
  const agents = await loadAgents(game);
  if (agents === null) return;
  const isOffered = (spec) => spec === "person" || agents.some((each) => each.spec === spec);
  for (const [side, spec] of [[sides.first, sides.first.value], [sides.second, second]]) {
    side.show(agents, isOffered(spec) ? spec : undefined);
  }
}

byId("settings").addEventListener("submit", async (event) => {
  event.preventDefault();
  await guarded(() => newGame(sides.first.value, sides.second.value));
});

async function newGame(first, second) {
  const game = chooser.value;
  for (const agent of [first, second]) if (agent !== "person") await checkAgent(agent, game);
  const seed = newSeed();
  const opening = await post("/opening", { game, plies: Number(byId("plies").value), seed });
  const agents = await agentsOf(game);
  stop();
  pause(false);
  facePerson(first, second);
  announce("New game.");
  await show({
    game, agents, first, second, seed, thinking: byId("thinking").value, line: opening.moves,
    ply: opening.ply, given: opening.ply, resigned: null, thought: null,
  });
}

/** Begin another game like the last one, between the given players. */
async function again(first, second) {
  await guarded(async () => {
    if (chooser.value !== state.game) await chooser.load(state.game);
    sides.first.show(state.agents, first);
    sides.second.show(state.agents, second);
    await newGame(first, second);
    byId("board").querySelector('.target[tabindex="0"]').focus({ preventScroll: true });
  });
}

/** Begin a game against the next level, with the search settings in its spec. */
function playStronger(side, spec) {
  byId("thinking").value = "";
  return again(...(side === "first" ? [spec, state.second] : [state.first, spec]));
}

acceptAgents(byId("bring"), byId("error"), async ({ spec, game }) => {
  await chooser.load(game);
  await offerAgents(game, spec);
});

byId("undo").addEventListener("click", () => goTo(plyToReturnTo()));
byId("redo").addEventListener("click", () => goTo(nextPly()));
byId("flip").addEventListener("click", () => {
  board.flip();
  draw();
});
byId("resign").addEventListener("click", () => {
  stop();
  state.resigned = state.position.first_to_move ? "first" : "second";
  state.line.length = state.ply;
  remember();
  draw();
  announce(resultLine());
});
byId("show-legal").addEventListener("change", () => draw());
byId("pause").addEventListener("click", () => {
  pause(!state.isPaused);
  if (state.isPaused) stop();
  else state.line.length = state.ply; // the game continues from the displayed position
  draw();
  if (!state.isPaused) guarded(continueGame);
});
byId("step").addEventListener("click", () => guarded(letAgentMove));
keepChoice(byId("pace"), "pace");
keepChoice(byId("sound"), "sound", () => sound("move"));
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey) return;
  if (event.key === "u") goTo(plyToReturnTo());
  if (event.key === "f") byId("flip").click();
});

const personMoves = (ply) => state[isFirst(ply) ? "first" : "second"] === "person";
const isFirst = (ply) => ply % 2 === 0;
const isOver = () => state.position.result !== null || state.resigned !== null;
const areBothAgents = () => state.first !== "person" && state.second !== "person";

function pause(isPaused) {
  state.isPaused = isPaused;
  byId("pause").setAttribute("aria-pressed", String(isPaused));
}

/** Latest earlier ply at which a person moves, or the previous ply if both players are agents. */
function plyToReturnTo() {
  for (let ply = state.ply - 1; ply >= 0; ply--) if (personMoves(ply)) return ply;
  return areBothAgents() ? Math.max(0, state.ply - 1) : state.ply;
}

function nextPly() {
  for (let ply = state.ply + 1; ply <= state.line.length; ply++) if (personMoves(ply)) return ply;
  return state.line.length;
}

async function goTo(ply) {
  if (ply === state.ply && state.resigned === null) return;
  stop();
  if (areBothAgents()) pause(true);
  await guarded(() => show({ ply, resigned: null, thought: null }));
}

/** Make a person's move. */
async function play(move) {
  if (!personMoves(state.ply) || isOver()) return;
  await guarded(() => show({ ...withMove(move), thought: null }));
}

/** Changes to the state by a move. If it replaces a given ply that was taken back, fewer plies are given. */
const withMove = (move) => ({
  line: [...state.line.slice(0, state.ply), move], ply: state.ply + 1, given: Math.min(state.given, state.ply),
});

/**
 * Apply changes to the game, show its position, and request a move if it is an agent's turn.
 *
 * The game stays the same if the server rejects the position or does not respond, or if the user
 * does something else in the meantime.
 */
async function show(changes = {}) {
  const { game, line, ply } = { ...state, ...changes };
  const number = (state.request += 1);
  const before = state.position;
  state.isBusy = true;
  draw();
  try {
    const position = await post("/position", { game, moves: line.slice(0, ply) });
    if (number !== state.request) return;
    Object.assign(state, changes, { position });
  } catch (error) {
    if (number !== state.request) return;
    throw error;
  } finally {
    if (number === state.request) state.isBusy = false;
    draw();
  }
  remember();
  const last = state.position.last_move;
  announce(`${last ? `${state.position.first_to_move ? "O" : "X"} plays ${last}. ` : ""}${resultLine()} ${state.position.pass_note}`);
  if (before && state.position.ply > before.ply) sound(soundOf(state.position));
  if (!state.isPaused || !areBothAgents()) guarded(continueGame);
}

/** Let an agent move if it is an agent's turn. */
async function continueGame() {
  if (!isOver() && state.ply === state.line.length && !personMoves(state.ply)) await letAgentMove();
}

function soundOf({ result }) {
  if (result === null) return "move";
  const people = ["first", "second"].filter((side) => state[side] === "person");
  if (result === "draw") return "drawn";
  return people.length === 1 && people[0] !== result ? "lost" : "won";
}

async function letAgentMove() {
  const waiting = new AbortController();
  state.waiting = waiting;
  draw();
  const [kind, amount] = state.thinking.split(":");
  const request = {
    position: { game: state.game, moves: state.line.slice(0, state.ply) },
    agent: state[isFirst(state.ply) ? "first" : "second"],
    seed: (state.seed + state.ply) % 2 ** 32,
    ...(kind ? { [kind]: Number(amount) } : {}),
  };
  try {
    const began = performance.now();
    const answer = await post("/move", request, waiting.signal);
    const pace = areBothAgents() && !state.isPaused ? Number(byId("pace").value) : 0;
    if (pace) await new Promise((done) => setTimeout(done, Math.max(0, pace - (performance.now() - began))));
    if (waiting.signal.aborted) return;
    state.waiting = null;
    await show({ ...withMove(answer.move), thought: answer.analysis });
  } catch (error) {
    if (waiting.signal.aborted) return;
    state.waiting = null;
    draw();
    if (error.status !== 0 || (state.isPaused && areBothAgents())) throw error;
    showError(byId("error"), `${error.message} The game will continue once the server responds.`);
    const { position } = state;
    const resume = async () => {
      await show();
      showError(byId("error"), "");
    };
    await retry(resume, {
      isWanted: () => state.position === position && !isOver(), isBusy: () => state.isBusy || state.waiting !== null,
    });
  }
}

function stop() {
  state.waiting?.abort();
  state.waiting = null;
}

function resultLine() {
  if (state.resigned) return `${state.resigned === "first" ? "X" : "O"} has resigned.`;
  return status(state.position);
}

function draw() {
  if (!state.position) return;
  const isActive = !isOver() && !state.isBusy && state.waiting === null && personMoves(state.ply);
  board.show(state.position, { isActive, showLegal: byId("show-legal").checked });
  const { first_to_move: firstToMove, result } = state.position;
  const names = playerNames([state.first, state.second], state.agents);
  const winner = state.resigned ? (state.resigned === "first" ? "second" : "first") : result;
  showPlayers(byId("game-title"), names, state.position, { isOver: isOver(), winner });
  const turn = isOver() ? "" : turnOf(names[firstToMove ? 0 : 1], state.waiting !== null);
  byId("status").textContent = [resultLine(), turn, state.position.pass_note].filter(Boolean).join(" ");
  byId("undo").disabled = plyToReturnTo() === state.ply && state.resigned === null;
  byId("redo").disabled = state.ply >= state.line.length;
  byId("resign").disabled = isOver() || !personMoves(state.ply);
  byId("autoplay").hidden = !areBothAgents() || isOver();
  byId("step").disabled = !state.isPaused || state.waiting !== null || state.isBusy;
  if (byId("end").hidden === isOver()) drawEnding(names);
  moveList(byId("moves"), state.line, state.ply, goTo);
  const thought = byId("thought");
  byId("thought-part").hidden = !state.thought && state.first === "person" && state.second === "person";
  if (state.thought) thought.replaceChildren(thoughtTable(state.thought));
  const moves = state.line.slice(0, state.ply).join(",");
  byId("to-analysis").href = `/analyse#${new URLSearchParams({ game: state.game, moves })}`;
}

/** Show the end of a game; the modules for endings and sounds are loaded when first needed. */
async function drawEnding(names) {
  byId("end").hidden = true;
  if (!isOver()) return;
  const { showEnding } = await import("./lib/ending.js");
  if (isOver()) showEnding(byId("end"), state, names, { again, playStronger });
}

async function sound(name) {
  if (byId("sound").checked) (await import("./lib/sound.js")).playSound(name);
}

function remember() {
  setHashParams({
    game: state.game, x: state.first, o: state.second, thinking: state.thinking,
    moves: state.line.slice(0, state.ply).join(","), resigned: state.resigned ?? "", seed: state.seed,
    given: state.given || "",
  });
}

addEventListener("hashchange", () => location.reload());
guarded(begin);
