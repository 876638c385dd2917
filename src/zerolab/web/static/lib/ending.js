// Panel at the end of a game: the result in words, the score, and what to do next.

import { linkTo } from "./archive.js";
import { countPieces } from "./board.js";
import { agentName } from "./choosers.js";
import { el } from "./dom.js";
import { strongerThan } from "./ladder.js";
import { cellNames } from "./lines.js";

const SIDES = { first: "X", second: "O" };
const OTHER = { first: "second", second: "first" };

/**
 * Show the end of a game in an element.
 *
 * `state` is the page's state, and `names` are the names of both players. `again(first, second)` begins
 * another game, and `playStronger(side, spec)` begins one against a stronger agent on that side.
 */
export function showEnding(host, state, names, { again, playStronger }) {
  const { position, resigned } = state;
  const facts = [reasonOf(position, resigned), `The game lasted ${position.ply} plies.`].filter(Boolean).join(" ");
  host.hidden = false;
  host.replaceChildren(
    el("h2", { id: "end-title" }, resultOf(position, resigned, names)),
    el("p", {}, facts),
    el("div", { class: "row" }, waysOn(state, names, again, playStronger)),
  );
}

function waysOn(state, names, again, playStronger) {
  const { game, first, second, given, resigned, position, agents, thinking } = state;
  const button = (id, text, onclick) => el("button", { type: "button", id, class: id === "rematch" ? "main" : null, onclick }, text);
  const review = { game, moves: position.moves.join(","), x: names[0], o: names[1], given: given || "", resigned, ply: position.ply };
  const person = ["first", "second"].find((side) => state[side] === "person");
  const rival = OTHER[person];
  const stronger = person && state[rival] !== "person" ? strongerThan(state[rival], agents, thinking) : null;
  return [
    button("rematch", "Rematch", () => again(first, second)),
    button("swap", "Swap sides", () => again(second, first)),
    linkTo("replay", review, person ? "Review my mistakes" : "Review the mistakes", { id: "review", class: "button" }),
    stronger ? button("stronger", `Stronger level: ${agentName(stronger, agents)}`, () => playStronger(rival, stronger)) : null,
  ];
}

/** Sentence with the result, such as "You have won as X." */
function resultOf({ result }, resigned, names) {
  const winner = resigned ? OTHER[resigned] : result;
  if (winner === "draw") return "The game is drawn.";
  const name = names[winner === "first" ? 0 : 1];
  return name === "You" ? `You have won as ${SIDES[winner]}.` : `${name} has won as ${SIDES[winner]}.`;
}

function reasonOf(position, resigned) {
  const { winning_cells: winning, drawing, result } = position;
  if (resigned) return `${SIDES[resigned]} has resigned.`;
  if (drawing.decided_by === "count") {
    return `${SIDES.first} has ${countPieces(position, 1)} discs, ${SIDES.second} has ${countPieces(position, -1)}.`;
  }
  if (!winning.length) return result === "draw" ? "Nobody has completed a line." : "";
  if (drawing.cells === "holes") {
    const columns = [...new Set(winning.map((cell) => position.column_labels[cell % position.columns]))];
    return `The winning line is highlighted: ${winning.length} pieces in column${columns.length > 1 ? "s" : ""} ${columns.join(", ")}.`;
  }
  const names = cellNames(position);
  return `The winning line is highlighted: ${winning.map((cell) => names[cell]).join(" ")}.`;
}
