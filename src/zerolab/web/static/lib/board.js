// Board with mouse, keyboard and screen-reader support. Its elements are kept when the position
// changes, so that pieces can move; drawing.js draws the shapes.

import { el, svg } from "./dom.js";
import { Drawing } from "./drawing.js";

let isPointed = false; // true if the focus comes from a pointer, not from Tab
addEventListener("pointerdown", () => (isPointed = true), true);
addEventListener("keydown", ({ key }) => (isPointed &&= key !== "Tab"), true);

const PIECES = { 1: "first", "-1": "second" };
const SIDES = { 1: "X", "-1": "O" };

/**
 * Board in an element. `onMove(name)` is called when the user selects a legal move. If `onCell` is
 * set, `onCell(cell)` is called instead, for every selected cell; the editor uses this. The `sides`
 * element, if there is one, shows both sides' colours. If `sharesArrows` is true, the page handles the
 * arrow keys while the focus comes from a pointer; otherwise, they always move the focus.
 */
export class Board {
  constructor(host, { onMove = () => {}, onCell = null, sides = null, sharesArrows = false } = {}) {
    this.host = host;
    this.sides = sides;
    this.onMove = onMove;
    this.onCell = onCell;
    this.isFlipped = false;
    this.focus = 0;
    this.sharesArrows = sharesArrows;
    this.built = "";
    host.classList.add("board");
  }

  /**
   * Show a position in the server's format. Moves can be made if `isActive` is true. `hints`
   * is a result of `hintsOf`, and `overlay` draws over the board, like the result of `ghostsOf`.
   */
  show(position, { isActive = true, hints = {}, overlay = () => [], showLegal = true } = {}) {
    const before = this.position;
    this.position = position;
    this.isActive = isActive && position.result === null;
    this.hints = hints;
    this.byCell = this.#legalByCell();
    const isNew = this.#build();
    const pixel = this.#pixel(); // before the drawing changes, so that its layout is computed only once
    this.svg.setAttribute("aria-label", this.summary());
    this.#showPieces(isNew ? undefined : before);
    this.#showHints(hints, showLegal, pixel);
    this.overlay.replaceChildren(...overlay(this.drawing, (side) => this.#disc(side, "shape"), pixel));
    for (const cell of this.cells.keys()) this.#updateTarget(cell);
    this.#preview(null);
    this.sides?.replaceChildren(...[1, -1].map((side) => colourOf(side, position)));
    this.#showOthers();
  }

  flip() {
    this.isFlipped = !this.isFlipped;
  }

  /** Description of the position in words. */
  summary() {
    const { position } = this;
    const pieces = `X has ${countPieces(this.position, 1)} pieces, O has ${countPieces(this.position, -1)}.`;
    return `${status(position)} ${pieces} ${position.pass_note}`.trim();
  }

  /** Build the elements of a board unless they exist, and return true if they are new. */
  #build() {
    const { game } = this.position;
    const wanted = `${game} ${this.isFlipped}`;
    if (this.built === wanted) return false;
    const hadFocus = this.host.contains(document.activeElement);
    this.built = wanted;
    this.drawing = new Drawing(this.position, this.isFlipped);
    const { rows, columns, isUpright } = this.drawing;
    this.focus = Math.min(this.focus, rows * columns - 1);
    this.cells = new Map(Array.from({ length: rows * columns }, (_, cell) => [cell, this.#newCell(cell)]));
    const layer = (name) => svg("g", {}, [...this.cells.values()].map((each) => each[name]));
    this.ghost = svg("g", { class: "ghost", "aria-hidden": "true" });
    this.overlay = svg("g", { class: "overlay", "aria-hidden": "true" });
    const { ratio, above, below } = this.drawing.proportions;
    for (const [name, value] of Object.entries({ ratio, above, below })) this.host.style.setProperty(`--${name}`, value);
    this.svg = svg(
      "svg",
      { viewBox: this.drawing.view.join(" "), role: "group", class: this.position.drawing.pieces },
      this.drawing.below(), this.drawing.names(), isUpright ? this.ghost : [], layer("place"), this.drawing.before(),
      layer("mark"), layer("hint"), this.overlay, isUpright ? [] : this.ghost, svg("g", { role: "grid", "aria-label": "Board" }, this.#targetRows()),
    );
    this.others = el("div", { class: "row" });
    this.host.replaceChildren(this.svg, this.others);
    if (hadFocus) this.#focusOn(this.focus);
    return true;
  }

  /** Elements of a cell: places for its piece, its mark and its hint, and the target to click. */
  #newCell(cell) {
    const place = () => svg("g", { transform: this.drawing.transform(cell), "aria-hidden": "true" });
    return { place: place(), mark: place(), hint: place(), target: this.#newTarget(cell), piece: 0 };
  }

  #legalByCell() {
    const { legal_moves: legal, rows, columns, board } = this.position;
    const names = new Map();
    for (const move of legal) {
      if (move.cell !== null) names.set(move.cell, move.name);
      if (move.column === null) continue;
      for (let row = 0; row < rows; row++) {
        if (board[row][move.column] === 0) names.set(row * columns + move.column, move.name);
      }
    }
    return names;
  }

  /** Name of the move shown in a cell, or null. Moves in columns are shown where the piece lands. */
  #shownMove(cell) {
    const name = this.byCell.get(cell);
    if (name === undefined) return null;
    const { columns } = this.position;
    return this.drawing.isUpright && this.byCell.get(cell + columns) === name ? null : name;
  }

  #pieceAt(cell) {
    const { board, columns } = this.position;
    return board[Math.floor(cell / columns)][cell % columns];
  }

  /** Show the pieces; if `before` is one move earlier, new pieces fall, appear or turn. */
  #showPieces(before) {
    const { moves, last_cell: last } = this.position;
    const isNext = before?.moves.join() === moves.slice(0, -1).join() && moves.length > 0;
    for (const [cell, parts] of this.cells) {
      const piece = this.#pieceAt(cell);
      if (piece !== parts.piece) this.#changePiece(cell, piece, isNext);
      parts.piece = piece;
    }
    if (this.position === before) return; // keeps marks that are waiting for a falling piece
    this.svg.classList.toggle("falling", isNext && this.drawing.isUpright);
    if (last !== null) this.svg.style.setProperty("--height", this.drawing.place(last)[0] + 1);
    this.#showMarks();
  }

  /** Mark the last move and the winning pieces. */
  #showMarks() {
    const { last_cell: last, winning_cells: winning } = this.position;
    const fades = winning.length > 0 && this.drawing.fades_other_pieces;
    for (const [cell, parts] of this.cells) {
      const isWinning = winning.includes(cell);
      parts.place.classList.toggle("faded", fades && !isWinning);
      const marks = isWinning ? this.drawing.symbol("win") : [];
      if (cell === last) marks.push(...this.drawing.symbol(`last ${PIECES[parts.piece]}`));
      parts.mark.replaceChildren(...marks);
    }
  }

  #changePiece(cell, piece, isNext) {
    const { place, piece: old } = this.cells.get(cell);
    if (piece === 0) {
      place.replaceChildren();
      return;
    }
    const shown = this.#disc(piece, "piece");
    if (isNext) shown.classList.add(old !== 0 ? "turns" : this.drawing.isUpright ? "falls" : "appears");
    place.replaceChildren(shown);
  }

  /** A player's piece, with `name` as its class. */
  #disc(side, name) {
    return svg("g", { class: `${name} ${PIECES[side]}` }, this.drawing.symbol(PIECES[side]));
  }

  /** Size of a screen pixel in cells. */
  #pixel() {
    return this.drawing.view[2] / (this.svg.clientWidth || 500);
  }

  /** Show dots on legal moves, or hints. */
  #showHints(hints, showLegal, pixel) {
    for (const [cell, { hint }] of this.cells) {
      const name = this.#shownMove(cell);
      const shown = name === null ? undefined : hints[name];
      if (shown) hint.replaceChildren(...shown.draw(this.drawing, pixel));
      else if (name !== null && showLegal && this.isActive) hint.replaceChildren(svg("circle", { class: "legal", r: 0.1 }));
      else hint.replaceChildren();
    }
  }

  /** Show the piece that a click on `cell` would place: in the cell, or entering its column from above. */
  #preview(cell) {
    this.ghost.replaceChildren();
    if (cell === null || !this.isActive || this.onCell !== null || !this.byCell.has(cell)) return;
    const hasHint = this.cells.get(cell).hint.querySelector(".heat") !== null;
    if (hasHint && !this.drawing.isUpright) return; // the hint stays legible
    const [x, y] = this.drawing.cellCentre(cell);
    this.ghost.setAttribute("transform", `translate(${x} ${this.drawing.drop_height ?? y})`);
    this.ghost.append(this.#disc(this.position.first_to_move ? 1 : -1, "shape"));
  }

  /** Cells to click and focus. One cell is in the tab order, and arrow keys move between cells. */
  #targetRows() {
    const cells = [...this.cells].map(([cell, parts]) => [parts.target, ...this.drawing.place(cell)]);
    return Array.from({ length: this.drawing.rows }, (_, row) => {
      const inRow = cells.filter((each) => each[1] === row).sort((a, b) => a[2] - b[2]);
      return svg("g", { role: "row" }, inRow.map(([target]) => target));
    });
  }

  #newTarget(cell) {
    return this.drawing.area(cell, {
      class: "target",
      role: "gridcell",
      "data-cell": cell,
      tabindex: cell === this.focus ? 0 : -1,
      onclick: () => this.#choose(cell),
      onkeydown: (event) => this.#key(event, cell),
      onpointerenter: (event) => this.#preview(event.pointerType === "mouse" ? cell : null),
      onpointerleave: () => this.#preview(null),
      onfocus: (event) => this.#preview(event.target.matches(":focus-visible") ? cell : null),
      onblur: () => this.#preview(null),
    });
  }

  #updateTarget(cell) {
    const { target } = this.cells.get(cell);
    const move = this.byCell.get(cell);
    const canMove = this.onCell !== null || (this.isActive && move !== undefined);
    if (move === undefined) target.removeAttribute("data-move");
    else target.setAttribute("data-move", move);
    target.setAttribute("aria-label", this.#cellName(cell));
    target.setAttribute("aria-disabled", String(!canMove));
  }

  #cellName(cell) {
    const { columns, column_labels: labels, last_cell: last } = this.position;
    const [row, column] = [Math.floor(cell / columns) + 1, labels[cell % columns]];
    const name = this.drawing.isUpright ? `column ${column}, row ${row} from the top:` : `${column}${row}`;
    const piece = this.#pieceAt(cell);
    const content = piece === 0 ? "empty" : SIDES[piece];
    const legal = this.isActive && this.byCell.has(cell) ? ", legal move" : "";
    const hint = this.hints[this.#shownMove(cell)];
    return `${name} ${content}${cell === last ? ", last move" : ""}${legal}${hint ? `, ${hint.words}` : ""}`;
  }

  #choose(cell) {
    this.focus = cell;
    if (this.onCell !== null) this.onCell(cell);
    else if (this.isActive && this.byCell.has(cell)) this.onMove(this.byCell.get(cell));
  }

  #key(event, cell) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#choose(cell);
      return;
    }
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (!step || (this.sharesArrows && isPointed && this.onCell === null)) return;
    event.preventDefault();
    event.stopPropagation();
    const [row, column] = this.drawing.place(cell);
    const destination = [row + step[0], column + step[1]].join();
    const next = [...this.cells.keys()].find((each) => this.drawing.place(each).join() === destination);
    if (next !== undefined) this.#focusOn(next);
  }

  #focusOn(cell) {
    this.focus = cell;
    for (const [each, { target }] of this.cells) target.setAttribute("tabindex", each === cell ? 0 : -1);
    this.cells.get(cell).target.focus();
  }

  /** Show buttons for moves without a cell, such as a pass. If one had the focus, keep it on the board. */
  #showOthers() {
    const moves = this.position.legal_moves.filter((move) => move.cell === null && move.column === null);
    const hadFocus = this.others.contains(document.activeElement);
    const buttons = moves.map(({ name }) =>
      el(
        "button",
        { type: "button", "data-move": name, disabled: !this.isActive, onclick: () => this.onMove(name) },
        name,
      ),
    );
    this.others.replaceChildren(...buttons);
    if (!hadFocus) return;
    if (buttons.length && this.isActive) buttons[0].focus();
    else this.#focusOn(this.focus);
  }
}

/** Colour and letter of a side, marked if that side is to move. */
function colourOf(side, position) {
  const isToMove = position.result === null && position.first_to_move === (side === 1);
  return el("span", { class: isToMove ? "to-move" : null }, swatchOf(side, position), `${SIDES[side]}${scoreOf(side, position)}`);
}

/** Piece of a side, 1 for X and -1 for O, at the size of text. */
export const swatchOf = (side, { drawing }) =>
  svg("svg", { viewBox: "-0.5 -0.5 1 1", class: `swatch-piece ${drawing.pieces}`, "aria-hidden": "true" }, svg("circle", { class: `body of-${PIECES[side]}`, r: 0.45 }));

/** Space and the number of a side's pieces in games decided by that number; otherwise "". */
export const scoreOf = (side, position) => (position.drawing.decided_by === "count" ? ` ${countPieces(position, side)}` : "");

/** Number of a side's pieces; the side is 1 for X and -1 for O. */
export const countPieces = ({ board }, side) => board.flat().filter((piece) => piece === side).length;

/** Side to move, or the result. */
export function status(position) {
  const results = { first: "X has won.", second: "O has won.", draw: "The game is drawn." };
  return results[position.result] ?? `${position.first_to_move ? "X" : "O"} is to move.`;
}
