// Learn page: games against an opponent that adapts to your strength, with hints and warnings.

import { post, retry } from "./lib/api.js";
import { Board, status } from "./lib/board.js";
import { GameChooser, agentName, latestAgents } from "./lib/choosers.js";
import { announce, byId, guarded, hashParams, keepChoice, setHashParams, showError } from "./lib/dom.js";
import { EvaluationBar, agentEvaluation, exactEvaluation, finalEvaluation } from "./lib/evaluation.js";
import { hintsOf } from "./lib/hints.js";
import { ladderOf } from "./lib/ladder.js";
import { showPlayers, turnOf } from "./lib/players.js";
import { rulesOf } from "./lib/rules.js";
import { scoreText } from "./lib/thoughts.js";

const TEACHER = "mcts:2000"; // gives hints if the solver is too slow
const DROP = 0.35; // drop in the teacher's value that is considered a mistake
const SECONDS = 1.5;

const board = new Board(byId("board"), { onMove: (move) => play(move) });
const chooser = new GameChooser(byId("game"), (game) => guarded(() => change(game)));
const state = {
  game: "", moves: [], agents: [], ladder: [], position: null, hints: {}, waiting: null, isBusy: false, request: 0, seed: 0,
  isCounted: false, evaluation: null, opponent: "",
};
const loadAgents = latestAgents();
const bar = new EvaluationBar(byId("board"));


async function begin() {
  const { game } = hashParams();
  await chooser.load(game);
  await change(game ?? chooser.value);
}

async function change(game) {
  const agents = await loadAgents(game);
  if (agents === null) return;
  Object.assign(state, { game, agents, ladder: ladderOf(agents) });
  const strength = byId("strength");
  strength.max = state.ladder.length - 1;
  strength.value = records()[game]?.strength ?? 0;
  byId("rules").textContent = rulesOf(game);
  await start();
}

const records = () => JSON.parse(localStorage.getItem("zerolab-learn") ?? "{}");

function saveRecord(change) {
  const all = records();
  const own = { won: 0, drawn: 0, lost: 0, ...all[state.game], ...change };
  localStorage.setItem("zerolab-learn", JSON.stringify({ ...all, [state.game]: own }));
}

/** Agent at the selected level, the opponent in the next game. */
const nextOpponent = () => state.ladder[Number(byId("strength").value)] ?? state.ladder[0];
const isMine = () => state.position.first_to_move !== byId("second").checked;

async function start() {
  if (!state.game) return; // the agents have not been loaded yet
  state.waiting?.abort();
  Object.assign(state, { waiting: null, isCounted: false, opponent: nextOpponent(), seed: Math.floor(Math.random() * 2 ** 31) });
  byId("advice").textContent = "";
  setHashParams({ game: state.game });
  board.isFlipped = byId("second").checked;
  await show([]);
}

const positionRequest = (moves = state.moves) => ({ game: state.game, moves });

/**
 * Show the position after `moves` with any advice about the last one, and request a move if it is the
 * opponent's turn.
 *
 * The game stays the same if the server does not respond or if the user does something else in the
 * meantime.
 */
async function show(moves = state.moves, advice = "") {
  const number = (state.request += 1);
  state.isBusy = true;
  draw();
  try {
    const position = await post("/position", positionRequest(moves));
    if (number !== state.request) return;
    Object.assign(state, { moves, position, hints: {}, evaluation: position.result === null ? null : finalEvaluation(position) });
  } catch (error) {
    if (number !== state.request) return;
    throw error;
  } finally {
    if (number === state.request) state.isBusy = false;
    draw();
  }
  showError(byId("error"), "");
  if (advice) byId("advice").textContent = advice;
  announce(`${state.position.last_move ? `Move ${state.position.last_move}. ` : ""}${status(state.position)} ${state.position.pass_note}`);
  if (state.position.result !== null) count();
  else if (!isMine()) await letOpponentMove();
  else guarded(evaluate);
}

/** If requested, show who is ahead: from the solver, or from a search if the solver is too slow. */
async function evaluate() {
  bar.isHidden = !byId("ahead").checked;
  if (!byId("ahead").checked || !state.position || state.position.result !== null) return;
  const { request, position } = state;
  const { scores } = await post("/solution", { position: positionRequest(), seconds: SECONDS });
  const evaluation = scores
    ? exactEvaluation(position, scores)
    : agentEvaluation(position, (await post("/analysis", { position: positionRequest(), agent: TEACHER })).value, TEACHER);
  if (request !== state.request) return; // the evaluation is for an earlier position
  state.evaluation = evaluation;
  draw();
}

async function letOpponentMove() {
  const [waiting, number] = [new AbortController(), state.request];
  state.waiting = waiting;
  draw();
  try {
    const request = { position: positionRequest(), agent: state.opponent, seed: state.seed + state.moves.length };
    const answer = await post("/move", request, waiting.signal);
    if (state.waiting === waiting) state.waiting = null;
    if (number === state.request) await show([...state.moves, answer.move]);
  } catch (error) {
    if (error.status !== 0) throw error;
    showError(byId("error"), `${error.message} The game will continue once the server responds.`);
    resume();
  } finally {
    if (state.waiting === waiting) state.waiting = null;
    draw();
  }
}

/** Continue the game once the server responds, unless the user does something else. */
async function resume() {
  const { position, seed } = state;
  try {
    await retry(() => show(), {
      isWanted: () => state.position === position && state.seed === seed, isBusy: () => state.isBusy || state.waiting !== null,
    });
  } catch (error) {
    if (error.name !== "AbortError") showError(byId("error"), error);
  }
}

async function play(move) {
  if (state.isBusy || state.waiting || !isMine()) return;
  await guarded(async () => {
    const number = (state.request += 1);
    Object.assign(state, { hints: {}, isBusy: true });
    byId("advice").textContent = "";
    draw();
    const advice = byId("warn").checked ? await judge(state.moves, move) : "";
    if (number !== state.request) return; // another game has begun
    await show([...state.moves, move], advice);
  });
}

/** Sentence about a mistake, or "" if the move is not a mistake or cannot be judged. */
async function judge(before, move) {
  try {
    return await verdictOn(before, move);
  } catch {
    return ""; // server errors are reported when the move is sent
  }
}

/** Verdict from the solver, or from a search if the solver is too slow. */
async function verdictOn(before, move) {
  const { scores, best_moves: best } = await post("/solution", { position: positionRequest(before), seconds: SECONDS });
  if (scores) {
    const lost = Math.sign(scores[best[0]]) - Math.sign(scores[move]);
    return lost > 0 ? `${move} was a mistake: it ${scoreText(scores[move])}; ${best[0]} ${scoreText(scores[best[0]])}.` : "";
  }
  const thought = await post("/analysis", { position: positionRequest(before), agent: TEACHER });
  const [first] = thought.moves;
  const own = thought.moves.find((each) => each.name === move);
  const isMistake = own && own.visits > 0 && first.value - own.value > DROP;
  return isMistake ? `${move} may be a mistake: a search prefers ${first.name}.` : "";
}

byId("hint").addEventListener("click", () =>
  guarded(async () => {
    const { request } = state;
    const hint = await hintFor(state.moves);
    if (request !== state.request) return; // the hint is for an earlier position
    state.hints = hint.hints;
    byId("advice").textContent = hint.advice;
    draw();
  }),
);

/** Hint for the board and as a sentence, from the solver, or from a search if the solver is too slow. */
async function hintFor(moves) {
  const solution = await post("/solution", { position: positionRequest(moves), seconds: SECONDS });
  if (!solution.scores) {
    const thought = await post("/analysis", { position: positionRequest(moves), agent: TEACHER });
    const advice = `A search prefers ${thought.chosen_move}. This is not exact: ${solution.unsolved_reason}.`;
    return { hints: hintsOf(thought), advice };
  }
  const each = solution.best_moves.length > 1 ? "; each" : "";
  const advice = `Exact: ${solution.best_moves.join(", ")}${each} ${scoreText(solution.scores[solution.best_moves[0]])}.`;
  return { hints: hintsOf(null, solution), advice };
}

byId("undo").addEventListener("click", () =>
  guarded(async () => {
    const mine = byId("second").checked ? 1 : 0;
    let length = state.moves.length - 1;
    while (length > 0 && length % 2 !== mine) length -= 1;
    await show(state.moves.slice(0, Math.max(0, length)));
  }),
);
byId("again").addEventListener("click", () => guarded(start));
byId("second").addEventListener("change", () => guarded(start));
byId("strength").addEventListener("change", () => {
  saveRecord({ strength: Number(byId("strength").value) });
  guarded(start);
});
keepChoice(byId("ahead"), "ahead", () => guarded(evaluate));
bar.isHidden = !byId("ahead").checked;
byId("strength").addEventListener("input", () => drawOpponent());

/** Record the result and choose the next opponent. */
function count() {
  if (state.isCounted) return;
  state.isCounted = true;
  const own = { won: 0, drawn: 0, lost: 0, ...records()[state.game] };
  const result = state.position.result === "draw" ? "drawn" : (state.position.result === "first") !== byId("second").checked ? "won" : "lost";
  const step = { won: 1, drawn: 0, lost: -1 }[result];
  const former = Number(byId("strength").value);
  const strength = Math.max(0, Math.min(state.ladder.length - 1, former + step));
  saveRecord({ [result]: own[result] + 1, strength });
  byId("strength").value = strength;
  const change = strength > former ? "Your next opponent will be stronger." : strength < former ? "Your next opponent will be weaker." : "";
  const news = [{ won: "Well done!", drawn: "A draw.", lost: "" }[result], change].filter(Boolean).join(" ");
  byId("advice").textContent = [byId("advice").textContent, news].filter(Boolean).join(" "); // after any advice about the last move
  draw();
}

function draw() {
  if (!state.position) return;
  const isActive = !state.isBusy && !state.waiting && state.position.result === null && isMine();
  board.show(state.position, { isActive, hints: state.hints });
  bar.show(state.evaluation, board);
  const { first_to_move: firstToMove, result } = state.position;
  const name = agentName(state.opponent, state.agents);
  const names = byId("second").checked ? [name, "You"] : ["You", name];
  showPlayers(byId("game-title"), names, state.position, { isOver: result !== null });
  const turn = result === null ? turnOf(names[firstToMove ? 0 : 1], state.waiting !== null) : "";
  byId("status").textContent = [status(state.position), turn, state.position.pass_note].filter(Boolean).join(" ");
  byId("hint").disabled = !isActive;
  byId("undo").disabled = state.isBusy || state.waiting !== null || state.moves.length === 0;
  drawOpponent();
  const own = { won: 0, drawn: 0, lost: 0, ...records()[state.game] };
  byId("record").textContent = `Won ${own.won}, drawn ${own.drawn}, lost ${own.lost}.`;
}

function drawOpponent() {
  if (!state.ladder.length) return; // the agents have not been loaded yet
  const number = Number(byId("strength").value);
  byId("opponent").textContent = `${number + 1} of ${state.ladder.length}: ${agentName(nextOpponent(), state.agents)}`;
  byId("strength").setAttribute("aria-valuetext", byId("opponent").textContent);
}

guarded(begin);
