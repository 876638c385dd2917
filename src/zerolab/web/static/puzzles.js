// Puzzles page: positions in which only one move wins, or only one draws; a verdict on each try; and
// a streak.

import { get, post } from "./lib/api.js";
import { linkTo } from "./lib/archive.js";
import { Board, status } from "./lib/board.js";
import { GameChooser, title } from "./lib/choosers.js";
import { announce, byId, guarded, hashParams, percent, setHashParams, showError, table } from "./lib/dom.js";
import { moveList } from "./lib/moves.js";
import { withShapes } from "./lib/lines.js";

const REFRESH_SECONDS = 2;
const STEP_SECONDS = 0.9; // between the moves of a line
const AT_WORK = ["solving", "grading", "waiting"];
const MOST_SEEN = 2000;

const board = new Board(byId("board"), { onMove: (move) => guarded(() => answer(move)), sides: byId("sides") });
const chooser = new GameChooser(byId("game"), (game) => guarded(() => change(game)));
const state = {
  game: "", list: null, puzzle: null, line: [], ply: 0, isTried: false, isSolved: false, isBusy: false, request: 0,
  timer: 0, key: "zerolab-puzzles",
};

async function begin() {
  const { game, level, puzzle } = hashParams();
  byId("level").value = ["easy", "medium", "hard"].includes(level) ? level : "";
  const { pupil } = await get("/server");
  if (pupil) state.key += ` ${pupil}`; // pupils who share a browser have separate records
  drawStreak();
  setInterval(() => document.visibilityState === "visible" && AT_WORK.includes(state.list?.state) && refresh(), 1000 * REFRESH_SECONDS);
  await chooser.load(game ?? "connect_four:5x5");
  await change(game ?? chooser.value, puzzle);
}

async function change(game, key = undefined) {
  Object.assign(state, { game, list: null });
  const number = close();
  const list = await get("/puzzles", { game });
  if (number !== state.request) return;
  state.list = list;
  drawStock();
  await (key ? open(key) : next());
}

/** Hide the puzzle, invalidate earlier requests, and return the number that the next request will have. */
function close() {
  clearInterval(state.timer);
  state.request += 1;
  Object.assign(state, { puzzle: null, line: [], isBusy: false });
  clearVerdict();
  setHashParams({ game: state.game, level: byId("level").value });
  draw();
  drawStock();
  return state.request;
}

/** Reload the list while puzzles are being made; the first one is shown as soon as it is ready. */
async function refresh() {
  const { game } = state;
  try {
    const list = await get("/puzzles", { game });
    if (game !== state.game) return;
    state.list = list;
    drawStock();
    if (!state.puzzle && !state.isBusy) await next();
  } catch (error) {
    showError(byId("error"), error);
  }
}

const inLevel = () => {
  const level = byId("level").value;
  return (state.list?.puzzles ?? []).filter((each) => !level || each.level === level);
};

const others = () => inLevel().filter((each) => each.key !== state.puzzle?.summary.key);

/** Show an untried puzzle at the chosen level or, if there are none, one that has been tried. */
async function next() {
  const choices = others();
  const { seen } = record();
  const fresh = choices.filter((each) => !seen.includes(each.key));
  const from = fresh.length ? fresh : choices;
  if (from.length) await open(from[Math.floor(Math.random() * from.length)].key);
  else if (!inLevel().length) close();
}

async function open(key) {
  clearInterval(state.timer);
  const [number, { game }] = [(state.request += 1), state];
  state.isBusy = true;
  try {
    const puzzle = await get("/puzzles/one", { game, key });
    if (number !== state.request) return;
    Object.assign(state, { puzzle, isTried: false });
    reset();
  } finally {
    if (number === state.request) {
      state.isBusy = false;
      draw();
      drawStock();
    }
  }
  setHashParams({ game, level: byId("level").value, puzzle: key });
  announce(`${byId("question").textContent} ${board.summary()}`);
}

/** Show the position of the puzzle, ready for a move. */
function reset() {
  const { position } = state.puzzle;
  clearInterval(state.timer);
  Object.assign(state, { line: [position], ply: 0, isSolved: false });
  clearVerdict();
}

function clearVerdict() {
  byId("verdict").textContent = "";
  byId("verdict").classList.remove("good", "bad");
}

async function answer(move) {
  if (state.isBusy || state.ply !== 0 || state.line.length !== 1) return;
  const { game, puzzle: { summary: { key } }, isTried, request } = state;
  state.isBusy = true;
  draw();
  try {
    const verdict = await post("/puzzles/answer", { game, key, move });
    if (!isTried) count(key, verdict.is_right); // even if another puzzle is shown by now
    if (request !== state.request) return;
    Object.assign(state, { isTried: true, isSolved: verdict.is_right, line: withShapes(verdict.positions).slice(verdict.puzzle_index), ply: 1 });
    byId("verdict").textContent = verdict.verdict;
    byId("verdict").classList.add(verdict.is_right ? "good" : "bad");
  } finally {
    if (request === state.request) {
      state.isBusy = false;
      draw();
    }
  }
  state.timer = setInterval(step, 1000 * STEP_SECONDS);
}

/** Show the next position of the line. */
function step() {
  if (state.ply + 1 >= state.line.length) {
    clearInterval(state.timer);
    return;
  }
  state.ply += 1;
  draw();
}

const EMPTY = { streak: 0, best: 0, right: 0, wrong: 0, seen: [] };
const record = () => ({ ...EMPTY, ...JSON.parse(localStorage.getItem(state.key) ?? "{}") });

/** Record the result of the first move in a puzzle. */
function count(key, isRight) {
  const own = record();
  const streak = isRight ? own.streak + 1 : 0;
  const seen = [...own.seen, key].slice(-MOST_SEEN);
  const counts = { right: own.right + Number(isRight), wrong: own.wrong + Number(!isRight) };
  localStorage.setItem(state.key, JSON.stringify({ streak, best: Math.max(own.best, streak), seen, ...counts }));
  drawStreak();
}

function drawStreak() {
  const { streak, best, right, wrong } = record();
  byId("streak").textContent = streak;
  byId("record").textContent = `in a row. Longest: ${best}. Right ${right}, wrong ${wrong}.`;
}

function drawStock() {
  const { list } = state;
  byId("next").disabled = others().length === 0;
  byId("progress").hidden = !AT_WORK.includes(list?.state);
  if (!list) {
    byId("stock").textContent = "";
    return;
  }
  const count = inLevel().length;
  const works = {
    solving: `The server is solving more positions: ${list.tried_position_count} so far.`, grading: "Agents are grading the puzzles by trying them.",
    waiting: "The server will make more puzzles when it is less busy.", complete: "", stopped: list.problem,
  };
  const some = `${count} ${byId("level").value} puzzle${count === 1 ? "" : "s"}.`.replace("  ", " ");
  byId("stock").textContent = `${some} ${works[list.state]}`;
  const graded = list.puzzles.filter((each) => each.is_grade_measured).length;
  const bar = byId("progress");
  bar.value = (list.state === "solving" ? list.puzzles.length : graded) / Math.max(1, list.state === "solving" ? list.planned_puzzle_count : list.puzzles.length);
  bar.setAttribute("aria-label", list.state === "solving" ? "Puzzles made" : "Puzzles graded");
}

function draw() {
  const { puzzle } = state;
  const isOpen = puzzle !== null;
  for (const id of ["board", "moves", "to-analysis"]) byId(id).hidden = !isOpen;
  byId("retry").hidden = !isOpen || state.isSolved || state.line.length === 1;
  byId("question").textContent = question();
  if (!isOpen) return;
  const position = state.line[state.ply];
  board.show(position, { isActive: !state.isBusy && state.line.length === 1 });
  const given = puzzle.position.moves.length;
  const last = state.line.at(-1).moves.slice(given);
  moveList(byId("moves"), last, state.ply, (ply) => {
    clearInterval(state.timer);
    state.ply = ply;
    draw();
  });
  byId("moves").hidden = last.length === 0;
  byId("to-analysis").href = linkTo("analyse", { game: state.game, moves: position.moves.join(",") }, "").href;
  drawGrade();
}

function question() {
  const { puzzle } = state;
  if (!puzzle) return reason();
  const wanted = puzzle.goal === "win" ? "wins" : "holds the draw; all others lose";
  return `${status(puzzle.position)} Find the only move that ${wanted}. ${puzzle.position.pass_note}`.trim();
}

/** Explanation of why no puzzle is shown. */
function reason() {
  const { list, isBusy } = state;
  const isAtWork = AT_WORK.includes(list?.state);
  if (!list || isBusy || (isAtWork && !list.puzzles.length)) return "Waiting for the first puzzle…";
  if (inLevel().length) return "This puzzle does not exist.";
  const level = byId("level").value;
  if (isAtWork) return `No ${level} puzzles have been made yet.`;
  return `There are no ${level} puzzles for this game.`.replace("  ", " ");
}

function drawGrade() {
  const { summary, miss_shares: misses } = state.puzzle;
  const share = percent(summary.grade);
  byId("grade").textContent = summary.is_grade_measured
    ? `${title(summary.level)}: the agents miss the move in ${share} of their tries.`
    : `${title(summary.level)}: the agents are expected to miss the move in ${share} of their tries; none has tried it yet.`;
  const rows = Object.entries(misses).map(([agent, missed]) => [agent, percent(missed)]);
  byId("misses").replaceChildren(rows.length ? table(["Agent", "Misses"], rows, { numbers: [1], caption: "Misses by agent" }) : "");
}

byId("next").addEventListener("click", () =>
  guarded(async () => {
    await next();
    byId("puzzle-title").focus();
  }),
);
byId("retry").addEventListener("click", () => {
  reset();
  draw();
  byId("puzzle-title").focus();
});
byId("level").addEventListener("change", () =>
  guarded(async () => {
    if (!state.list) return; // the level is applied when the list arrives
    drawStock();
    await next();
  }),
);
addEventListener("hashchange", () => location.reload());

guarded(begin);
