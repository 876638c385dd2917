// Bar beside a board that shows who is ahead, and the same information in words below the board.

import { el, signed } from "./dom.js";

/** Bar beside the board in `host`. The bar moves the host into a new frame. */
export class EvaluationBar {
  constructor(host) {
    this.share = el("div", { class: "share" });
    this.track = el("div", {
      class: "evaluation", role: "meter", "aria-label": "Evaluation for X", "aria-valuemin": -1, "aria-valuemax": 1,
    }, this.share);
    this.caption = el("p", { class: "evaluation-text soft" });
    this.place = el("div", { class: "evaluation-place" }, this.track);
    this.frame = el("div", { class: "with-evaluation" });
    host.before(this.frame);
    this.frame.append(this.place, host, this.caption);
  }

  /**
   * Show an evaluation {value, isExact, source} for X, with the value in [-1, 1]; null means that there
   * is none yet. The bar is as tall as the board's frame, with X's share at the bottom unless the board
   * is flipped.
   */
  show(evaluation, board) {
    const { position } = board;
    const pieces = position ? position.drawing.pieces : "";
    this.track.className = `evaluation ${pieces}${board.isFlipped ? " flipped" : ""}${evaluation ? "" : " unknown"}`;
    const { above, below } = position ? board.drawing.proportions : { above: 0, below: 0 };
    this.track.style.inset = `${100 * above}% 0 ${100 * below}%`;
    const value = evaluation?.value ?? 0;
    this.share.style.blockSize = `${50 + 50 * value}%`;
    this.caption.textContent = evaluation ? evaluationText(evaluation) : "No evaluation yet.";
    this.track.setAttribute("aria-valuenow", value.toFixed(2));
    this.track.setAttribute("aria-valuetext", this.caption.textContent);
  }

  /** Show or hide the bar and its text. */
  set isHidden(isHidden) {
    this.place.hidden = this.caption.hidden = isHidden;
    this.frame.classList.toggle("bare", isHidden);
  }
}

/** Evaluation in words, such as "X wins under perfect play." */
function evaluationText({ value, isExact, source }) {
  if (!isExact) return `Value for X: ${signed(value)}${source ? `, from ${source}` : ""}.`;
  if (value === 0) return `A draw${source ? ` ${source}` : ""}.`;
  return `${value > 0 ? "X" : "O"} wins${source ? ` ${source}` : ""}.`;
}

/** Evaluation of a finished game. */
export const finalEvaluation = ({ result }) => ({ value: { first: 1, second: -1, draw: 0 }[result], isExact: true, source: "" });

/** Evaluation from exact scores for the side to move. */
export function exactEvaluation(position, scores) {
  const best = Math.sign(Math.max(...Object.values(scores)));
  return { value: position.first_to_move ? best : -best || 0, isExact: true, source: "under perfect play" };
}

/** Evaluation from an agent's value for the side to move, or null if that is not an expected outcome. */
export function agentEvaluation(position, value, source) {
  if (value === null || Math.abs(value) > 1) return null;
  return { value: position.first_to_move ? value : -value, isExact: false, source };
}
