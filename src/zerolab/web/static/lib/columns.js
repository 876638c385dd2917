// Columns that show the searches of several agents side by side, each with a best line to follow.

import { Board } from "./board.js";
import { el, replaceContent } from "./dom.js";
import { ghostsOf, hintsOf } from "./hints.js";
import { bestLine, moveTable, valueText } from "./thoughts.js";

/**
 * Column of one agent: its best line and moves, and a board if there are other agents.
 *
 * The elements are kept during the search, so that the pointer and the focus stay on a line. `onPick`
 * receives a move to play, `onGo` receives moves to play, and `onLine(moves)` is called with the
 * moves of the line that the user is pointing at, or with an empty list.
 */
export class AgentColumn {
  constructor({ onPick, onGo, onLine }) {
    this.onPick = onPick;
    this.heading = el("h3");
    this.value = el("p", { class: "soft" }, "Waiting for the first simulations…");
    this.line = new LineButtons({ onGo, onLine: (moves) => this.#preview(moves, onLine) });
    this.line.element.hidden = true;
    this.boardHost = el("div");
    this.board = new Board(this.boardHost, { onMove: onPick, sharesArrows: true });
    this.table = el("div");
    this.element = el("section", { class: "agent-column" }, this.heading, this.value, this.line.element, this.table, this.boardHost);
  }

  /** Show the agent's name, even before the first analysis. */
  name(name) {
    this.heading.textContent = name;
    this.element.setAttribute("aria-label", name);
  }

  /** Show an analysis. `withBoard` adds a board to the column, and `isFlipped` flips that board. */
  show(position, analysis, solution, { withBoard, isFlipped, ...options }) {
    this.board.isFlipped = isFlipped;
    this.shown = { position, hints: hintsOf(analysis, solution, options), withBoard };
    this.value.textContent = valueText(analysis);
    this.line.show(bestLine(analysis));
    this.boardHost.hidden = !withBoard;
    this.#drawBoard(this.line.chosen);
    replaceContent(this.table, moveTable(analysis, solution, this.onPick));
  }

  #preview(moves, onLine) {
    this.#drawBoard(moves);
    onLine(moves);
  }

  #drawBoard(line) {
    const { position, hints, withBoard } = this.shown;
    if (withBoard) this.board.show(position, { hints: line.length ? {} : hints, overlay: ghostsOf(position, line), showLegal: !line.length });
  }
}

/** Best line as buttons. Pointing at a move, or choosing it, previews the line up to that move. */
class LineButtons {
  constructor({ onGo, onLine }) {
    this.onLine = onLine;
    this.moves = [];
    this.pinned = 0; // number of moves whose preview is kept
    this.pointed = 0;
    this.buttons = el("div", { class: "chips moves", role: "group", "aria-label": "Best line" });
    this.go = el("button", { type: "button", onclick: () => onGo(this.chosen) }, "Play these moves");
    this.element = el("div", { class: "best-line" }, el("span", { class: "soft" }, "Best line"), this.buttons, this.go);
  }

  /** Moves whose preview is shown. */
  get chosen() {
    return this.moves.slice(0, this.pointed || this.pinned);
  }

  show(moves) {
    this.element.hidden = !moves.length;
    if (moves.join() === this.moves.join()) return;
    this.moves = moves;
    this.pinned = Math.min(this.pinned, moves.length);
    this.pointed = Math.min(this.pointed, moves.length);
    while (this.buttons.children.length > moves.length) this.buttons.lastChild.remove();
    while (this.buttons.children.length < moves.length) this.buttons.append(this.#button(this.buttons.children.length + 1));
    this.#draw();
    if (this.chosen.length) this.onLine(this.chosen);
  }

  #button(count) {
    const point = (number) => () => this.#point(number);
    return el("button", {
      type: "button", onpointerenter: point(count), onpointerleave: point(0), onfocus: point(count), onblur: point(0),
      onclick: () => this.#pin(count),
    });
  }

  #point(count) {
    this.pointed = count;
    this.onLine(this.chosen);
  }

  #pin(count) {
    this.pinned = this.pinned === count ? 0 : count;
    this.pointed = 0;
    this.#draw();
    this.onLine(this.chosen);
  }

  #draw() {
    [...this.buttons.children].forEach((button, index) => {
      button.textContent = this.moves[index];
      button.setAttribute("aria-label", `Show the line up to move ${index + 1}, ${this.moves[index]}`);
      button.setAttribute("aria-pressed", String(index + 1 === this.pinned));
    });
    this.go.disabled = this.pinned === 0;
  }
}
