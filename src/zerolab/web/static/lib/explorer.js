// Search step by step: the selection, expansion, evaluation and backup of one simulation.

import { post } from "./api.js";
import { el, percent, replaceContent, showError, signed, table } from "./dom.js";

const MOST_ROWS = 8;
const MOST = 200; // highest simulation that can be shown

/**
 * Explorer of single simulations in a panel with the controls `back`, `next`, `number` and `hide`.
 *
 * `request()` returns the position and the agent, and `onPath(moves)` is called with the path of the
 * simulation, or with an empty list.
 */
export class Explorer {
  constructor(controls, { request, onPath }) {
    Object.assign(this, { ...controls, request, onPath, asked: 0 });
    this.next.addEventListener("click", () => this.#show(this.shown === null ? 1 : this.shown + 1));
    this.back.addEventListener("click", () => this.#show(this.shown - 1));
    this.number.addEventListener("change", () => this.#show(Number(this.number.value)));
    this.hide.addEventListener("click", () => this.onPath([]));
    this.#clear();
  }

  /** Forget the simulation if the position or the agent has changed. */
  follow() {
    const request = JSON.stringify(this.request());
    if (request === this.followed) return;
    this.followed = request;
    this.#clear();
  }

  #clear() {
    this.asked += 1;
    this.shown = null;
    this.host.replaceChildren();
    showError(this.error, "");
    this.#enable();
  }

  #enable() {
    this.back.disabled = !this.shown;
    this.hide.disabled = this.shown === null;
    this.next.disabled = !this.followed || this.shown === MOST;
    this.number.disabled = !this.followed;
    this.number.value = this.shown ?? "";
  }

  async #show(number) {
    const asked = (this.asked += 1);
    try {
      const step = await post("/simulation", { ...this.request(), number: Math.max(0, Math.min(MOST, Math.round(number))) });
      if (asked !== this.asked) return; // something else has been requested
      showError(this.error, "");
      this.shown = step.number;
      replaceContent(this.host, ...view(step));
      this.onPath(step.leaf.path);
    } catch (error) {
      if (asked === this.asked) showError(this.error, error);
    }
    this.#enable();
  }
}

const sideOf = (firstToMove) => (firstToMove ? "X" : "O");
const placeOf = (path) => (path.length ? `after ${path.join(" ")}` : "at the root");

function view(step) {
  const { leaf } = step;
  return [
    el("p", { class: "path" }, "Path: ", el("strong", {}, ["root", ...leaf.path].join(" → "))),
    part("1. Selection", selections(step)),
    part(leaf.outcome === null ? "2. Expansion" : "2. No expansion", [expansion(leaf)]),
    part("3. Evaluation", [evaluation(leaf)]),
    part("4. Backup", [backups(step)]),
    el("p", { class: "soft" }, `Visits of the moves at the root: ${visits(step.root_visits)}.`),
  ];
}

const part = (title, content) => el("section", { class: "step" }, el("h3", {}, title), content);
const visits = (counts) => Object.entries(counts).map(([name, count]) => `${name}: ${count}`).join(", ") || "none";

function selections({ selections: all, exploration_constant: c }) {
  if (!all.length) return [el("p", {}, "The root is not in the tree yet, so it is the leaf.")];
  return all.map((selection) => selectionOf(selection, c));
}

/** Table of the moves at a node, and the formula for the chosen move and the best of the others. */
function selectionOf({ path, first_to_move: firstToMove, visits: count, moves, chosen }, c) {
  const shown = moves.slice(0, MOST_ROWS);
  const rows = shown.map((each) => [
    each.name === chosen ? el("strong", { class: "chosen" }, `▶ ${each.name}`) : each.name,
    each.visits, signed(each.value), percent(each.prior, 1), signed(each.bonus), signed(each.score, 3),
  ]);
  const rival = moves.find((each) => each.name !== chosen);
  const best = moves.find((each) => each.name === chosen);
  const where = `${sideOf(firstToMove)} to move ${placeOf(path)}, N = ${count}`;
  const hidden = moves.length - shown.length;
  return el(
    "div",
    {},
    el("p", {}, `${where}: the move with the highest Q + U is ${chosen}.`),
    table(["move", "N", "Q", "P", "U", "Q + U"], rows, { numbers: [1, 2, 3, 4, 5], caption: `Moves ${placeOf(path)}` }),
    hidden > 0 ? el("p", { class: "soft" }, `and ${hidden} more`) : null,
    formula(best, count, c),
    rival ? formula(rival, count, c) : null,
  );
}

/** PUCT with the numbers of one move: Q + c · P · √N / (1 + n). */
function formula({ name, visits: own, prior, value, score }, count, c) {
  const bonus = `${c} · ${prior.toFixed(3)} · √${count} / (1 + ${own})`;
  return el("p", {}, el("code", { class: "formula" }, `${name}: Q + c·P·√N / (1 + n) = ${signed(value, 3)} + ${bonus} = ${signed(score, 3)}`));
}

function expansion({ outcome, path, priors }) {
  if (outcome !== null) return el("p", {}, `The game is over ${placeOf(path)}: there is nothing to add.`);
  const ranked = Object.entries(priors).sort((a, b) => b[1] - a[1]);
  const named = ranked.slice(0, MOST_ROWS).map(([name, prior]) => `${name} ${percent(prior, 1)}`);
  const hidden = ranked.length > MOST_ROWS ? `, and ${ranked.length - MOST_ROWS} more` : "";
  return el("p", {}, `The moves ${placeOf(path)} are added, with priors P from the network: ${named.join(", ")}${hidden}.`);
}

function evaluation({ outcome, path, value, first_to_move: firstToMove }) {
  const side = sideOf(firstToMove);
  if (outcome !== null) return el("p", {}, `The result ${placeOf(path)} is exact: ${signed(value)} for ${side}.`);
  return el("p", {}, `The network's value of the position ${placeOf(path)} is ${signed(value, 3)} for ${side}, the side to move.`);
}

function backups({ backups: all }) {
  const rows = [...all].reverse().map((each) => [
    each.path.length ? each.path.join(" ") : "root", sideOf(each.first_to_move), signed(each.leaf_value, 3), each.visits,
    `${signed(each.mean_before, 3)} → ${signed(each.mean_after, 3)}`,
  ]);
  return el(
    "div",
    {},
    el("p", {}, "The value is passed up the path. Its sign changes at every step, because the side to move changes."),
    table(["node", "to move", "value", "N", "mean"], rows, { numbers: [2, 3, 4], caption: "Nodes on the path, from the leaf to the root" }),
  );
}
