// Panel at the end of a game: the result in words, the score, and ways to go on.

import { linkTo } from "./archive.js";
import { el, replaceContent } from "./dom.js";
import { cellNames } from "./lines.js";

const SIDES = { first: "X", second: "O" };
const OTHER = { first: "second", second: "first" };

/**
 * Show the end of a game in an element, or hide the element while the game is not over.
 *
 * `names` are those of both players, and `resigned` is the side that has resigned, or null.
 * `actions` are buttons and links.
 */
export function showEnding(host, position, { names, resigned, actions }) {
  const isOver = position.outcome !== null || resigned !== null;
  host.hidden = !isOver;
  if (!isOver) return;
  const facts = [reasonOf(position, resigned), `The game had ${position.ply} plies.`].filter(Boolean).join(" ");
  replaceContent(
    host,
    el("h2", { id: "end-title" }, resultOf(position, resigned, names)),
    el("p", {}, facts),
    el("div", { class: "row" }, actions),
  );
}

/** Sentence with the winner, such as "You have won." */
function resultOf({ outcome }, resigned, names) {
  const winner = resigned ? OTHER[resigned] : outcome;
  if (winner === "draw") return "The game is drawn.";
  const name = names[winner === "first" ? 0 : 1];
  return name === "You" ? `You have won with ${SIDES[winner]}.` : `${name} has won with ${SIDES[winner]}.`;
}

function reasonOf(position, resigned) {
  const { winning_cells: winning, drawing, outcome, board } = position;
  if (resigned) return `${SIDES[resigned]} has resigned.`;
  if (drawing.decided_by === "count") {
    const count = (side) => board.flat().filter((piece) => piece === side).length;
    return `${SIDES.first} has ${count(1)} discs, ${SIDES.second} has ${count(-1)}.`;
  }
  if (!winning.length) return outcome === "draw" ? "Nobody has completed a line." : "";
  if (drawing.cells === "holes") {
    const columns = [...new Set(winning.map((cell) => position.column_labels[cell % position.columns]))];
    return `The winning line is lit: ${winning.length} pieces in column${columns.length > 1 ? "s" : ""} ${columns.join(", ")}.`;
  }
  const names = cellNames(position);
  return `The winning line is lit: ${winning.map((cell) => names[cell]).join(" ")}.`;
}

/** Link to the verdicts on a game that no run has stored. */
export const reviewLink = (params, text) => linkTo("replay", params, text, { id: "review", class: "button" });
