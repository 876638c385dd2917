// Search for a move that is better than a mistake; the verdict is hidden while the user tries moves.

import { post } from "./api.js";
import { scoreText } from "./thoughts.js";

const CLEARLY = 0.1; // minimum gain in expected outcome for a move to count as better

/**
 * Judge a move that the user tries in place of the mistake.
 *
 * `position` describes the position before either move, as in requests, and `judged` is the verdict on
 * the mistake. `judge` contains the agent, its simulations and the solver's time limit in seconds.
 * Return {isBetter, text}.
 */
export async function judgeTry(position, tried, judged, judge) {
  if (judged.verdict_source === "exact") {
    const { scores, unsolved_reason: reason } = await post("/solution", { position, seconds: judge.seconds });
    return scores ? exactly(scores, tried, judged) : { isBetter: false, text: `Not solved: ${reason}.` };
  }
  const after = { ...position, moves: [...position.moves, tried] };
  const value = await valueOf(after, judge);
  const isBetter = value >= judged.played_value + CLEARLY;
  const numbers = `value ${number(value)} instead of ${number(judged.played_value)}`;
  return { isBetter, text: isBetter ? `${tried} is better: ${numbers}.` : `${tried} is not clearly better: ${numbers}.` };
}

function exactly(scores, tried, judged) {
  const best = Math.max(...Object.values(scores));
  const words = `${tried} ${scoreText(scores[tried])}`;
  if (scores[tried] === best) return { isBetter: true, text: `Yes: ${words}. No move is better.` };
  if (scores[tried] > judged.played_value) return { isBetter: true, text: `Better: ${words}. There is an even better move.` };
  return { isBetter: false, text: `No: ${words}, and the move played in the game ${scoreText(judged.played_value)}.` };
}

/** Value of a move for the player who made it, from the agent's search of the position after it. */
async function valueOf(after, { agent, simulations }) {
  const { result, first_to_move: firstToMove } = await post("/position", after);
  if (result !== null) return result === "draw" ? 0 : (result === "first") === firstToMove ? -1 : 1;
  return -(await post("/analysis", { position: after, agent, simulations })).value;
}

const number = (value) => value.toFixed(2).replace("-", "−");
