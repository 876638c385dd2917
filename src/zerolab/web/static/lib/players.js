// Names of the players in a game on a board, and whose turn it is.

import { scoreOf, swatchOf } from "./board.js";
import { agentName } from "./choosers.js";
import { el } from "./dom.js";

const PERSON = "person";

/** Names of both players; each of `specs` is "person" or an agent spec. A lone person is "You". */
export function playerNames(specs, agents) {
  const people = specs.filter((each) => each === PERSON).length;
  return specs.map((each) => (each !== PERSON ? agentName(each, agents) : people === 1 ? "You" : "A person"));
}

/** Show both players' names in the heading of a board, marking the player to move or the winner. */
export function showPlayers(heading, [first, second], position, { isOver, winner = position.result }) {
  const name = (text, letter, side, sign) => {
    const isToMove = !isOver && position.first_to_move === (sign === 1);
    const kind = isToMove ? "to-move" : isOver && winner === side ? "winner" : "soft";
    return el("span", { class: kind, "data-side": letter }, swatchOf(sign, position), `${text} (${letter})${scoreOf(sign, position)}`);
  };
  heading.replaceChildren(name(first, "X", "first", 1), el("span", { class: "soft" }, " against "), name(second, "O", "second", -1));
}

/** Sentence saying that it is the user's turn or that an agent is thinking, or "". */
export function turnOf(name, isThinking) {
  if (isThinking) return `${name} is thinking…`;
  return name === "You" ? "It is your turn." : "";
}
