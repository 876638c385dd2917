// Table of an agent's analysis of a position.

import { el, percent, signed, table } from "./dom.js";

const SHOWN = 8;
const LINE = 12; // maximum number of moves shown of a best line

/** Analysis of a position in one block: value, best line and moves. */
export function thoughtTable(analysis) {
  const line = analysis.principal_variation.length ? `Best line: ${bestLine(analysis).join(" ")}.` : "";
  return el("div", {}, el("p", {}, el("code", {}, analysis.agent), `: ${valueText(analysis)}${line}`), moveTable(analysis));
}

export const bestLine = (analysis) => analysis.principal_variation.slice(0, LINE);

export const valueText = ({ value }) => (value === null ? "" : `Value for the side to move: ${signed(value)}. `);

/** Table of analysed moves with visits, values and priors, and exact scores if available. */
export function moveTable(analysis, solution = null, onPick = null) {
  const total = analysis.simulations || 0;
  const rows = analysis.moves.slice(0, SHOWN).map((move) => [
    onPick
      ? el("button", { type: "button", onclick: () => onPick(move.name), "aria-label": `Play ${move.name}` }, move.name)
      : move.name,
    move.visits === null ? "" : `${move.visits} (${percent(total ? move.visits / total : 0)})`,
    move.value === null ? "" : signed(move.value),
    move.prior === null ? "" : percent(move.prior, 1),
    ...(solution?.scores ? [scoreText(solution.scores[move.name])] : []),
  ]);
  const headings = ["move", "visits", "value", "prior", ...(solution?.scores ? ["exact"] : [])];
  const hidden = analysis.moves.length - rows.length;
  return el(
    "div",
    {},
    table(headings, rows, { numbers: [1, 2, 3, 4], caption: `Moves analysed by ${analysis.agent}`, keepsColumns: true }),
    hidden > 0 ? el("p", { class: "soft" }, `and ${hidden} more`) : null,
  );
}

/** Exact score as text, such as "wins (+3)". */
export function scoreText(score) {
  if (score === undefined) return "";
  if (score === 0) return "draws (0)";
  return `${score > 0 ? "wins" : "loses"} (${signed(score, 0)})`;
}

/** Sentences about perfect play in a position. A requested solution is null until the answer arrives. */
export function solutionText({ result, first_to_move: firstToMove }, solution, isRequested) {
  if (result !== null) return "";
  if (!isRequested) return "Perfect play: not requested.";
  if (solution === null) return "Perfect play: solving…";
  const { unsolved_reason: reason, best_moves: best, scores } = solution;
  if (reason) return `Perfect play is unknown: ${reason}.`;
  return `Under perfect play, ${firstToMove ? "X" : "O"} ${scoreText(scores[best[0]])}. Best: ${best.join(", ")}.`;
}
