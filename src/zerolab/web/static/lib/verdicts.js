// Verdicts on the moves of a game, by the solver and by an agent, collected as they arrive.

import { el } from "./dom.js";
import { scoreText } from "./thoughts.js";

const MARKS = { mistake: "??", slip: "?", good: "" };

/** The verdicts on a game's moves; an exact one takes precedence over an agent's. */
export class Verdicts {
  constructor() {
    this.exact = new Map();
    this.agent = new Map();
  }

  add(judged) {
    this[judged.judge].set(judged.ply, judged);
  }

  of(ply) {
    return this.exact.get(ply) ?? this.agent.get(ply);
  }

  /** The mark behind each move in the list of moves. */
  marks(moves) {
    return moves.map((_, ply) => MARKS[this.of(ply)?.verdict ?? "good"]);
  }

  /** The plies of moves that were mistakes or slips, in order. */
  get found() {
    const plies = new Set([...this.exact.keys(), ...this.agent.keys()]);
    return [...plies].filter((ply) => this.of(ply).verdict !== "good").sort((a, b) => a - b);
  }

  /** Curves of the value for X before each ply; `sides` has 1 where X was to move, -1 for O. */
  series(sides) {
    const agent = [...this.agent.values()].map((each) => [each.ply, each.value * sides[each.ply]]);
    const exact = [...this.exact.values()].map((each) => [each.ply, Math.sign(each.value) * sides[each.ply]]);
    const named = [["exact result", exact], ["agent's value", agent]];
    return named
      .filter(([, points]) => points.length)
      .map(([name, points]) => ({ name, points: points.sort((a, b) => a[0] - b[0]) }));
  }
}

/** A verdict in words. */
export function explain(judged) {
  const number = `${judged.ply + 1}. ${judged.move}`;
  const best = judged.best.join(", ");
  if (judged.judge === "exact") {
    const [before, after] = [scoreText(judged.value), scoreText(judged.after)];
    if (judged.verdict === "good") return `${number} is a best move: it ${after}.`;
    return `${number} ${after}; ${best} ${before}.`;
  }
  const [before, after] = [judged.value.toFixed(2), judged.after.toFixed(2)].map((each) => each.replace("-", "−"));
  if (judged.verdict === "good") return `${number} is worth ${after} to the agent, in a position worth ${before}.`;
  return `${number} is worth ${after} to the agent, which expects ${before} and plays ${best}.`;
}

/** The list of mistakes and slips, as buttons that lead to them. */
export function mistakeList(verdicts, onPick) {
  const items = verdicts.found.map((ply) => {
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
