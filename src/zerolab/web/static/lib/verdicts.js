// Verdicts on the moves in a game, from the solver and an agent.

import { el } from "./dom.js";
import { agentEvaluation, exactEvaluation } from "./evaluation.js";
import { scoreText } from "./thoughts.js";

const MARKS = { mistake: "??", slip: "?", good: "" };

/** Verdicts on the moves in a game. Exact verdicts take precedence over an agent's. */
export class Verdicts {
  constructor() {
    this.exact = new Map();
    this.agent = new Map();
  }

  add(judged) {
    this[judged.verdict_source].set(judged.ply, judged);
  }

  of(ply) {
    return this.exact.get(ply) ?? this.agent.get(ply);
  }

  /** Mark after each move in the move list. */
  marks(moves) {
    return moves.map((_, ply) => MARKS[this.of(ply)?.verdict ?? "good"]);
  }

  /** Plies of mistakes and slips, in order. */
  get errors() {
    const plies = new Set([...this.exact.keys(), ...this.agent.keys()]);
    return [...plies].filter((ply) => this.of(ply).verdict !== "good").sort((a, b) => a - b);
  }

  /** Evaluation of the position before a ply for the bar beside the board, or null. */
  evaluation(ply, position) {
    const judged = this.of(ply);
    if (!judged) return null;
    if (judged.verdict_source === "exact") return exactEvaluation(position, [judged.value_before]);
    return agentEvaluation(position, judged.value_before, "the agent");
  }

  /** Curves of the value for X before each ply. `sides` contains 1 for X to move and -1 for O. */
  series(sides) {
    const agent = [...this.agent.values()].map((each) => [each.ply, each.value_before * sides[each.ply]]);
    const exact = [...this.exact.values()].map((each) => [each.ply, Math.sign(each.value_before) * sides[each.ply]]);
    const named = [["exact result", exact], ["agent's value", agent]];
    return named
      .filter(([, points]) => points.length)
      .map(([name, points]) => ({ name, points: points.sort((a, b) => a[0] - b[0]) }));
  }
}

/** Sentence that explains a verdict. */
export function explain(judged) {
  const number = `${judged.ply + 1}. ${judged.move}`;
  const best = judged.best_moves.join(", ");
  if (judged.verdict_source === "exact") {
    const [before, after] = [scoreText(judged.value_before), scoreText(judged.played_value)];
    if (judged.verdict === "good") return `${number} is a best move: it ${after}.`;
    return `${number} ${after}; ${best} ${before}.`;
  }
  const [before, after] = [judged.value_before.toFixed(2), judged.played_value.toFixed(2)].map((each) => each.replace("-", "−"));
  if (judged.verdict === "good") return `${number}: the agent's value is ${after} after the move and ${before} before it.`;
  return `${number}: the agent's value drops from ${before} to ${after}. The agent would play ${best}.`;
}

/** List of mistakes and slips. `onPick(ply)` is called when the user selects one. */
export function mistakeList(verdicts, onPick) {
  const items = verdicts.errors.map((ply) => {
    const judged = verdicts.of(ply);
    const isMistake = judged.verdict === "mistake";
    return el(
      "li",
      {},
      el(
        "button",
        { type: "button", class: "quiet", onclick: () => onPick(ply) },
        el("span", { class: isMistake ? "bad" : "warn" }, isMistake ? "Mistake: " : "Slip: "),
        explain(judged),
      ),
    );
  });
  return items.length ? el("ul", { class: "plain" }, items) : null;
}
