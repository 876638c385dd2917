// A tutorial: games against an opponent whose strength follows yours, with hints and warnings.

import { get, post } from "./lib/api.js";
import { Board, notesOf, status } from "./lib/board.js";
import { GameChooser, agentsOf } from "./lib/choosers.js";
import { announce, byId, hashParams, setHashParams, showError } from "./lib/dom.js";
import { rulesOf } from "./lib/rules.js";
import { scoreText } from "./lib/thoughts.js";

const TEACHER = "mcts:2000"; // gives hints where the solver cannot, and there is no run
const DROP = 0.35; // of the teacher's value that is called a mistake
const SECONDS = 1.5;
const SIMULATIONS = [4, 25, 100, 400];

const board = new Board(byId("board"), { onMove: (move) => play(move) });
const chooser = new GameChooser(byId("game"), (game) => guarded(() => change(game)));
const state = { game: "", moves: [], ladder: [], position: null, notes: {}, isBusy: false, seed: 0, isCounted: false };

async function begin() {
  const given = hashParams();
  await chooser.load(given.game);
  await change(given.game ?? chooser.value);
}

async function change(game) {
  state.game = game;
  state.ladder = await ladderOf(game);
  const strength = byId("strength");
  strength.max = state.ladder.length - 1;
  strength.value = records()[game]?.strength ?? 0;
  byId("rules").textContent = rulesOf(game);
  await start();
}

/** Opponents from weak to strong: by Elo of a tournament if there is one, by iterations otherwise. */
async function ladderOf(game) {
  const agents = await agentsOf(game);
  const runs = agents.filter((each) => each.run);
  const rated = await ratedAgents(game);
  if (rated.length >= 3) return [{ spec: "random", elo: null }, ...rated];
  if (!runs.length) return [{ spec: "random" }, ...[5, 20, 100, 500, 3000].map((count) => ({ spec: `mcts:${count}` }))];
  const iterations = runs.filter((each) => each.iteration !== null && each.run === runs[0].run);
  const steps = [...new Set([0, 1, 2, 3].map((part) => Math.floor((part * (iterations.length - 1)) / 3)))];
  const chosen = steps.map((step) => iterations.sort((a, b) => a.iteration - b.iteration)[step]);
  const weak = chosen.map((each) => ({ spec: `${each.spec}?simulations=${SIMULATIONS[1]}`, elo: each.elo }));
  const last = chosen.at(-1);
  const strong = SIMULATIONS.slice(2).map((count) => ({ spec: `${last.spec}?simulations=${count}`, elo: null }));
  return [{ spec: "random", elo: null }, ...weak, ...strong];
}

/** The players of a tournament of the game whose Elo is known, the weakest first. */
async function ratedAgents(game) {
  try {
    const rated = await get("/ratings", { game });
    return rated.filter((each) => each.spec !== "random").sort((a, b) => a.elo - b.elo);
  } catch {
    return []; // no tournament: iterations tell strength roughly
  }
}

const records = () => JSON.parse(localStorage.getItem("zerolab-learn") ?? "{}");

function saveRecord(change) {
  const all = records();
  const own = { won: 0, drawn: 0, lost: 0, ...all[state.game], ...change };
  localStorage.setItem("zerolab-learn", JSON.stringify({ ...all, [state.game]: own }));
}

const opponent = () => state.ladder[Number(byId("strength").value)] ?? state.ladder[0];
const isMine = () => state.position.first_to_move !== byId("second").checked;

async function start() {
  state.waiting?.abort();
  Object.assign(state, { waiting: null, isBusy: false, moves: [], notes: {}, isCounted: false, seed: Math.floor(Math.random() * 2 ** 31) });
  byId("advice").textContent = "";
  setHashParams({ game: state.game });
  board.isFlipped = byId("second").checked;
  await show();
}

const asked = (moves = state.moves) => ({ game: state.game, moves });

async function show() {
  state.position = await post("/position", asked());
  draw();
  announce(`${state.position.last ? `Move ${state.position.last}. ` : ""}${status(state.position)} ${state.position.note}`);
  if (state.position.outcome !== null) count();
  else if (!isMine()) await letOpponentMove();
}

async function letOpponentMove() {
  const waiting = new AbortController();
  Object.assign(state, { waiting, isBusy: true });
  draw();
  try {
    const wanted = { position: asked(), agent: opponent().spec, seed: state.seed + state.moves.length };
    const answer = await post("/move", wanted, waiting.signal);
    if (waiting.signal.aborted) return;
    state.moves = [...state.moves, answer.move];
  } finally {
    if (state.waiting === waiting) Object.assign(state, { waiting: null, isBusy: false });
  }
  await show();
}

async function play(move) {
  if (state.isBusy || !isMine()) return;
  await guarded(async () => {
    const before = state.moves;
    Object.assign(state, { notes: {}, isBusy: true });
    byId("advice").textContent = "";
    draw();
    let verdict = "";
    try {
      if (byId("warn").checked) verdict = await judge(before, move);
    } finally {
      state.isBusy = false;
    }
    if (state.moves !== before) return; // another game has begun meanwhile
    state.moves = [...before, move];
    await show();
    if (verdict) byId("advice").textContent = verdict;
  });
}

/** Say that a move was a mistake, by the solver or else by a search; "" for one that was not. */
async function judge(before, move) {
  const { scores, best } = await post("/solution", { position: asked(before), seconds: SECONDS });
  if (scores) {
    const lost = Math.sign(scores[best[0]]) - Math.sign(scores[move]);
    return lost > 0 ? `${move} was a mistake: it ${scoreText(scores[move])}; ${best[0]} ${scoreText(scores[best[0]])}.` : "";
  }
  const thought = await post("/analysis", { position: asked(before), agent: TEACHER });
  const [first] = thought.moves;
  const own = thought.moves.find((each) => each.name === move);
  const isMistake = own && own.visits > 0 && first.value - own.value > DROP;
  return isMistake ? `${move} may be a mistake: a search prefers ${first.name}.` : "";
}

byId("hint").addEventListener("click", () =>
  guarded(async () => {
    const solution = await post("/solution", { position: asked(), seconds: SECONDS });
    if (solution.scores) {
      state.notes = notesOf(null, solution);
      state.notes.heat = Object.fromEntries(solution.best.map((move) => [move, 1]));
      byId("advice").textContent = `Exact: ${solution.best.join(", ")} ${scoreText(solution.scores[solution.best[0]])}.`;
    } else {
      const thought = await post("/analysis", { position: asked(), agent: TEACHER });
      state.notes = notesOf(thought);
      byId("advice").textContent = `A search likes ${thought.best} best. It is not exact: ${solution.reason}.`;
    }
    draw();
  }),
);
byId("undo").addEventListener("click", () =>
  guarded(async () => {
    const mine = byId("second").checked ? 1 : 0;
    let length = state.moves.length - 1;
    while (length > 0 && length % 2 !== mine) length -= 1;
    state.moves = state.moves.slice(0, Math.max(0, length));
    state.notes = {};
    await show();
  }),
);
byId("again").addEventListener("click", () => guarded(start));
byId("second").addEventListener("change", () => guarded(start));
byId("strength").addEventListener("change", () => {
  saveRecord({ strength: Number(byId("strength").value) });
  guarded(start);
});
byId("strength").addEventListener("input", () => drawOpponent());

/** Note the result, and choose the next opponent. */
function count() {
  if (state.isCounted) return;
  state.isCounted = true;
  const own = { won: 0, drawn: 0, lost: 0, ...records()[state.game] };
  const result = state.position.outcome === "draw" ? "drawn" : (state.position.outcome === "first") !== byId("second").checked ? "won" : "lost";
  const step = { won: 1, drawn: 0, lost: -1 }[result];
  const strength = Math.max(0, Math.min(state.ladder.length - 1, Number(byId("strength").value) + step));
  saveRecord({ [result]: own[result] + 1, strength });
  byId("strength").value = strength;
  byId("advice").textContent = { won: "Well done. The next one is stronger.", drawn: "A draw.", lost: "The next one is weaker." }[result];
  draw();
}

function draw() {
  const isActive = !state.isBusy && state.position.outcome === null && isMine();
  board.show(state.position, { isActive, ...state.notes });
  byId("status").textContent = `${status(state.position)} ${state.position.note}${state.waiting ? " Your opponent is thinking …" : ""}`;
  byId("hint").disabled = !isActive;
  byId("undo").disabled = state.isBusy || state.moves.length === 0;
  drawOpponent();
  const own = { won: 0, drawn: 0, lost: 0, ...records()[state.game] };
  byId("record").textContent = `Won ${own.won}, drawn ${own.drawn}, lost ${own.lost}.`;
}

function drawOpponent() {
  const { spec, elo } = opponent();
  const number = Number(byId("strength").value);
  const rating = elo === null || elo === undefined ? "" : `, Elo ${Math.round(elo)}`;
  byId("opponent").textContent = `${number + 1} of ${state.ladder.length}: ${spec}${rating}`;
  byId("strength").setAttribute("aria-valuetext", byId("opponent").textContent);
}

async function guarded(work) {
  showError(byId("error"), "");
  try {
    await work();
  } catch (error) {
    if (error.name !== "AbortError") showError(byId("error"), error);
  }
}

guarded(begin);
