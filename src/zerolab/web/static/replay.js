// Replay page: a filtered list of stored games, and the selected game on a board, with mistakes.

import { Socket, get, post } from "./lib/api.js";
import { count, linkTo } from "./lib/archive.js";
import { Board, status } from "./lib/board.js";
import { lineChart } from "./lib/chart.js";
import { AgentChooser, agentsOf } from "./lib/choosers.js";
import { announce, byId, drawsSoon, el, hashParams, setHashParams, showError } from "./lib/dom.js";
import { EvaluationBar, finalEvaluation } from "./lib/evaluation.js";
import { judgeTry } from "./lib/better_move.js";
import { WON, gameTable, keyOf, markShown, mostInteresting, parseKey } from "./lib/game_list.js";
import { ghostsOf } from "./lib/hints.js";
import { GameValues } from "./lib/game_values.js";
import { moveList } from "./lib/moves.js";
import { withShapes } from "./lib/lines.js";
import { showPlayers } from "./lib/players.js";
import { Timeline } from "./lib/timeline.js";
import { Verdicts, explain, mistakeList } from "./lib/verdicts.js";

const PAGE = 20;
const FILTERS = ["stage", "iteration", "player", "opponent", "result", "min_plies", "max_plies", "opening"];
const RESULTS = {
  "": "any", first: "X won", second: "O won", draw: "drawn", won: "player won", lost: "player lost",
};

const state = {
  source: "", facets: null, filters: {}, offset: 0, page: null,
  game: null, line: [], ply: 0, verdicts: new Verdicts(), request: 0, problem: "",
  sought: null, // ply and verdict of the mistake for which the user is seeking a better move, and the last try
};
const board = new Board(byId("board"), { onMove: (move) => tryMove(move), sharesArrows: true });
const timeline = new Timeline(byId("timeline"), (ply) => go(ply));
const gameValues = new GameValues(() => draw());
const bar = new EvaluationBar(byId("board"));
const judge = new AgentChooser(byId("judge"), "Agent", { onChange: () => askJudges() });
const drawSoon = drawsSoon(() => draw());
const socket = new Socket("/judge", { onMessage: receive, onOpen: () => askJudges() });

async function begin() {
  const params = hashParams();
  byId("result").replaceChildren(...Object.entries(RESULTS).map(([value, text]) => el("option", { value }, text)));
  if (params.game) await openGiven(params); // first, because the lists take longer
  const [runs, tournaments] = await Promise.all([get("/runs"), get("/tournaments")]);
  const readable = runs.filter((each) => each.status !== "damaged");
  const sources = [
    ["Runs", readable.map((each) => each.run)],
    ["Tournaments", tournaments.filter((each) => !each.problem).map((each) => each.tournament)],
  ];
  const listed = sources.flatMap(([, names]) => names);
  if (params.source && !listed.includes(params.source)) sources.push(["Other", [params.source]]);
  const groups = sources.filter(([, names]) => names.length);
  byId("nothing").hidden = groups.length > 0;
  byId("list-part").hidden = !groups.length;
  addEventListener("hashchange", () => guarded(follow));
  if (!groups.length) return;
  byId("source").replaceChildren(
    ...groups.map(([label, names]) => el("optgroup", { label }, names.map((name) => el("option", {}, name)))),
  );
  const [latest] = readable.sort((a, b) => b.latest_progress_time - a.latest_progress_time);
  if (latest) byId("source").value = latest.run;
  await followList(params);
  if (!params.game) await followGame(params);
}

/** Show the games, game and position specified in the URL. */
async function follow() {
  const params = hashParams();
  await followList(params);
  if (params.game) await openGiven(params);
  else await followGame(params);
}

async function followList(params) {
  const source = params.source ?? byId("source").value;
  state.filters = Object.fromEntries(FILTERS.map((key) => [key, params[key] ?? ""]));
  state.offset = Math.max(0, Math.round(Number(params.offset)) || 0);
  await choose(source);
  await list();
}

async function followGame(params) {
  const game = params.at ? parseKey(params.at) : mostInteresting(state.page.games);
  if (!game) closeGame();
  else await open(game, Number(params.ply) || 0);
}

/** Hide the game, and ignore verdicts and values that arrive later. */
function closeGame() {
  state.request += 1;
  state.game = null;
  byId("game-part").hidden = true;
}

/** Show a game contained in the URL, such as one that has just been played. */
async function openGiven({ game, moves, x, o, given, resigned, ply }) {
  const listed = moves ? moves.split(",") : [];
  await open({
    folder: "", iteration: "", stage: "", number: "", game, moves: listed, first: x ?? "first player",
    second: o ?? "second player", given_plies: Math.min(Number(given) || 0, listed.length),
    resigned: resigned ?? "", is_forfeited: false, result: { first: "second", second: "first" }[resigned],
  }, Number(ply) || 0);
}

const isGiven = (game) => game.folder === "";

async function choose(source) {
  byId("source").value = source;
  if (state.source !== source) {
    state.facets = await get("/played/facets", { source });
    state.source = source;
  }
  const { stages, players } = state.facets;
  fill("stage", stages.map((each) => [each.stage, `${each.stage} (${count(each.games)})`]));
  for (const id of ["player", "opponent"]) fill(id, players.map((name) => [name, name]));
  for (const key of FILTERS) byId(key).value = state.filters[key];
  const details = byId("more-filters");
  details.open ||= FILTERS.some((key) => state.filters[key] && details.contains(byId(key))); // active filters must be visible
}

function fill(id, options) {
  byId(id).replaceChildren(el("option", { value: "" }, "any"), ...options.map(([value, text]) => el("option", { value }, text)));
}

async function list() {
  state.page = await get("/played", { source: state.source, ...state.filters, offset: state.offset, limit: PAGE, latest_first: true });
  const { total, games } = state.page;
  if (total && !games.length) {
    state.offset = 0; // there are fewer games than the URL says
    await list();
    return;
  }
  const last = Math.min(state.offset + PAGE, total);
  byId("total").textContent = total ? `Games ${count(state.offset + 1)} to ${count(last)} of ${count(total)}` : "No matching games.";
  byId("earlier").disabled = state.offset === 0;
  byId("later").disabled = last >= total;
  if (total) byId("opening").placeholder = games[0].moves.slice(0, 2).join(","); // moves from a matching game, as an example
  byId("games").replaceChildren(total ? gameTable(games, state.facets.kind === "run", (game) => guarded(() => open(game, 0))) : "");
  markGame();
}

/** Mark the game that is shown, if it is in the list. */
function markGame() {
  const { game, page } = state;
  const isListed = game && page?.games.some((each) => each.folder === game.folder && keyOf(each) === keyOf(game));
  markShown(isListed ? keyOf(game) : "");
}

async function open(selected, ply) {
  const { iteration, stage, number } = selected;
  const game = selected.moves ? selected : await get("/played/one", { source: state.source, iteration, stage, number });
  const line = withShapes(await post("/line", { game: game.game, moves: game.moves }));
  const agents = state.game?.game === game.game ? null : await agentsOf(game.game);
  const isSame = state.game && keyOf(state.game) === keyOf(game) && state.game.folder === game.folder && state.game.moves.join() === game.moves.join();
  if (agents) judge.show(agents);
  Object.assign(state, { game, line, verdicts: isSame ? state.verdicts : new Verdicts() });
  byId("game-part").hidden = false;
  markGame();
  go(Math.max(0, Math.min(Math.round(ply), game.moves.length)));
  if (!isSame) askJudges();
}

function go(ply) {
  state.ply = ply;
  state.sought = null;
  draw();
  const position = state.line[ply];
  announce(`${position.last_move ? `Move ${ply}, ${position.last_move}. ` : ""}${status(position)}`);
  const { game } = state;
  if (isGiven(game)) {
    setHashParams({
      game: game.game, moves: game.moves.join(","), x: game.first, o: game.second, given: game.given_plies || "",
      resigned: game.resigned, ply: ply || "",
    });
  } else setHashParams({ source: game.folder, ...state.filters, offset: state.offset || "", at: keyOf(game), ply: ply || "" });
}

function draw() {
  const { game, line, ply, verdicts, sought } = state;
  if (!game) return;
  const position = line[ply];
  showPlayers(byId("game-title"), [game.first, game.second], position, { isOver: ply === game.moves.length, winner: game.result });
  byId("seeking").hidden = sought === null;
  for (const id of ["judged", "values-part", "timeline"]) byId(id).hidden = sought !== null;
  board.show(position, { isActive: sought !== null, showLegal: sought !== null, overlay: ghostsOf(position, sought?.move ? [sought.move] : []) });
  bar.isHidden = sought !== null;
  bar.show(evaluation(position), board);
  const ending = ply === game.moves.length ? endOf(game) : "";
  byId("status").textContent = `${ending || status(position)} ${position.pass_note}`;
  byId("pgn").disabled = byId("text").disabled = isGiven(game);
  byId("back").disabled = byId("begin").disabled = ply === 0;
  byId("forward").disabled = byId("end").disabled = ply === game.moves.length;
  byId("next").disabled = byId("better").disabled = !verdicts.errors.length;
  byId("analyse").href = linkTo("analyse", { game: game.game, moves: game.moves.slice(0, ply).join(",") }, "").href;
  moveList(byId("moves"), game.moves, ply, go, sought === null ? verdicts.marks(game.moves) : {}, game.given_plies);
  byId("verdict").textContent = verdictText();
  byId("mistakes").replaceChildren(mistakeList(verdicts, (mistake) => go(mistake + 1)) ?? "");
  timeline.show(game.moves.length, ply, verdicts.errors.map((each) => errorOf(each)));
  drawValues();
}

const errorOf = (ply) => ({ ply: ply + 1, verdict: state.verdicts.of(ply).verdict, text: explain(state.verdicts.of(ply)) });

function evaluation(position) {
  if (position.result !== null) return finalEvaluation(position);
  const value = gameValues.at(state.ply);
  return state.verdicts.evaluation(state.ply, position) ?? (value === null ? null : { value, isExact: false, source: "the agent's network" });
}

function drawValues() {
  const sides = state.line.map((each) => (each.first_to_move ? 1 : -1));
  const network = { name: "all positions at once", points: gameValues.points };
  const series = [...state.verdicts.series(sides), network].filter((each) => each.points.length);
  lineChart(byId("values"), series, { xLabel: "ply", yLabel: "value for X", range: [-1.05, 1.05], mark: state.ply, onPick: go });
}

/** Seek a better move than the mistake that led here or, if no mistake did, than the next mistake. */
function seek() {
  const { errors } = state.verdicts;
  const ply = errors.includes(state.ply - 1) ? state.ply - 1 : (errors.find((each) => each >= state.ply) ?? errors[0]);
  go(ply);
  state.sought = { ply, verdict: state.verdicts.of(ply), move: null, asked: 0 };
  tellTask();
  draw();
}

function tellTask() {
  const { ply } = state.sought;
  const side = state.line[ply].first_to_move ? "X" : "O";
  tell(`Find a better move for ${side} than ${state.game.moves[ply]}, the move played in the game.`, "");
}

async function tryMove(move) {
  const { sought, game } = state;
  if (sought === null) return;
  Object.assign(sought, { move, asked: sought.asked + 1 });
  const { asked, ply, verdict } = sought;
  const isCurrent = () => state.sought === sought && sought.asked === asked;
  showError(byId("error"), "");
  tell(`Judging ${move}…`, "");
  draw();
  if (move === game.moves[ply]) {
    tell(`${move} is the move played in the game: find a better one.`, "warn");
    return;
  }
  const position = { game: game.game, moves: game.moves.slice(0, ply) };
  const settings = { agent: judge.value, simulations: Number(byId("simulations").value), seconds: Number(byId("seconds").value) };
  try {
    const { isBetter, text } = await judgeTry(position, move, verdict, settings);
    if (isCurrent()) tell(text, isBetter ? "good" : "bad");
  } catch (error) {
    if (!isCurrent()) return;
    tellTask();
    showError(byId("error"), error);
  }
}

/** Show and announce a sentence about the search for a better move. */
function tell(text, className) {
  byId("try").className = className;
  byId("try").textContent = text;
}

/** Sentence about a game that ended before it was decided on the board, or "". */
function endOf(game) {
  if (game.is_forfeited) return `${WON[game.result]} by forfeit.`;
  return game.resigned ? `${game.resigned === "first" ? "X" : "O"} has resigned.` : "";
}

/** Sentence about the last move before the displayed position. */
function verdictText() {
  const { game, ply, verdicts } = state;
  if (ply > 0 && ply <= game.given_plies) return `${ply}. ${game.moves[ply - 1]} was given as part of an opening: no player chose it.`;
  const judged = ply ? verdicts.of(ply - 1) : null;
  return judged ? explain(judged) : "";
}

/** Request verdicts from the solver and the selected agent, cancelling earlier requests. */
function askJudges() {
  if (!state.game) return;
  state.request += 1;
  state.verdicts = new Verdicts();
  state.problem = "";
  const agent = judge.value;
  const request = {
    id: state.request, do: "judge", position: { game: state.game.game, moves: state.game.moves },
    given_plies: state.game.given_plies,
    use_solver: byId("use-solver").checked, seconds: Number(byId("seconds").value),
  };
  gameValues.want({ position: request.position, agent });
  const search = agent === "random" || agent === "perfect" ? {} : { agent, simulations: Number(byId("simulations").value) };
  byId("judging").textContent = "Judging the moves…";
  socket.send({ ...request, ...search });
  draw();
}

function receive(message) {
  if (!state.game || message.id !== state.request) return;
  if (message.error) state.problem = ` ${message.error}.`;
  if (message.judged) state.verdicts.add(message.judged);
  if (message.done) finished();
  if (message.judged || message.done) drawSoon();
}

function finished() {
  const { exact, agent, errors } = state.verdicts;
  const given = state.game.given_plies;
  const solved = `${exact.size} of ${state.game.moves.length - given} positions are solved`;
  const judged = agent.size ? ` and ${agent.size} are judged by the agent` : "";
  const mistakes = errors.filter((ply) => state.verdicts.of(ply).verdict === "mistake").length;
  const counts = `${plural(mistakes, "mistake")}, ${plural(errors.length - mistakes, "slip")}`;
  const opening = given ? ` The ${plural(given, "given ply", "given plies")} at the start, in grey, ${given === 1 ? "is" : "are"} not judged.` : "";
  byId("judging").textContent = `${solved}${judged}: ${counts}.${opening}${state.problem}`;
}

const plural = (number, name, names = `${name}s`) => `${number} ${number === 1 ? name : names}`;

function nextMistake() {
  const plies = state.verdicts.errors.map((ply) => ply + 1);
  if (plies.length) go(plies.find((ply) => ply > state.ply) ?? plies[0]);
}

function find(filters) {
  const source = byId("source").value;
  guarded(async () => {
    Object.assign(state, { filters, offset: 0 });
    await choose(source);
    await list();
    if (state.page.games.length) await open(mostInteresting(state.page.games), 0);
    else closeGame();
  });
}

const formFilters = () => Object.fromEntries(FILTERS.map((key) => [key, byId(key).value.trim()]));

function exportGames(format, filters) {
  const params = Object.entries({ source: state.source, format, ...filters }).filter(([, value]) => value !== "");
  location.assign(`/api/v1/played/export?${new URLSearchParams(params)}`);
}

let turn = Promise.resolve();

/** Run `work` after all earlier work, so that the latest request determines the final page. */
function guarded(work) {
  turn = turn.then(async () => {
    try {
      showError(byId("error"), "");
      await work();
    } catch (error) {
      showError(byId("error"), error);
    }
  });
}

byId("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  find(formFilters());
});
byId("source").addEventListener("change", () => find(Object.fromEntries(FILTERS.map((key) => [key, ""]))));
byId("clear").addEventListener("click", () => find(Object.fromEntries(FILTERS.map((key) => [key, ""]))));
for (const [id, step] of [["earlier", -PAGE], ["later", PAGE]]) {
  byId(id).addEventListener("click", () => {
    guarded(() => {
      state.offset = Math.max(0, state.offset + step);
      return list();
    });
  });
}
byId("all-pgn").addEventListener("click", () => exportGames("pgn", state.filters));
byId("all-text").addEventListener("click", () => exportGames("text", state.filters));
const thisGame = () => ({ iteration: state.game.iteration, stage: state.game.stage, number: state.game.number });
byId("pgn").addEventListener("click", () => exportGames("pgn", thisGame()));
byId("text").addEventListener("click", () => exportGames("text", thisGame()));
byId("begin").addEventListener("click", () => go(0));
byId("back").addEventListener("click", () => go(Math.max(0, state.ply - 1)));
byId("forward").addEventListener("click", () => go(Math.min(state.game.moves.length, state.ply + 1)));
byId("end").addEventListener("click", () => go(state.game.moves.length));
byId("next").addEventListener("click", nextMistake);
byId("better").addEventListener("click", seek);
byId("answer").addEventListener("click", () => go(state.sought.ply + 1));
byId("give-up").addEventListener("click", () => go(state.ply));
byId("flip").addEventListener("click", () => {
  board.flip();
  draw();
});
for (const id of ["use-solver", "seconds", "simulations"]) byId(id).addEventListener("change", askJudges);
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { ArrowLeft: "back", ArrowRight: "forward", Home: "begin", End: "end", n: "next", b: "better", f: "flip" };
  if (!(event.key in keys) || !state.game) return;
  event.preventDefault();
  byId(keys[event.key]).click();
});

guarded(begin);
