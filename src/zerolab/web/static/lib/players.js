// Names of the players of a game on a board, and whose turn it is.

import { agentName } from "./choosers.js";
import { el } from "./dom.js";

const PERSON = "person";

/** Names of both players, each a person or an agent's spec: "You" is the only person. */
export function playerNames(specs, agents) {
  const people = specs.filter((each) => each === PERSON).length;
  return specs.map((each) => (each !== PERSON ? agentName(each, agents) : people === 1 ? "You" : "A person"));
}

/** Show the names of both players in the heading of a board, marking the player to move. */
export function showPlayers(heading, [first, second], { firstToMove, isOver }) {
  const name = (text, side, isToMove) =>
    el("span", { class: isToMove && !isOver ? "to-move" : "soft", "data-side": side }, `${text} (${side})`);
  heading.replaceChildren(name(first, "X", firstToMove), " against ", name(second, "O", !firstToMove));
}

/** Sentence about the player to move: their turn, or that an agent is thinking. */
export function turnOf(name, isThinking) {
  if (isThinking) return `${name} is thinking …`;
  return name === "You" ? "It is your turn." : "";
}
