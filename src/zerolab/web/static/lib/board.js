// Board with mouse, keyboard and screen-reader support.

import { el, svg, percent, signed } from "./dom.js";

const PIECES = { 1: "first", "-1": "second" };
const SIDES = { 1: "X", "-1": "O" };
const MARGIN = 0.6;

/**
 * Board in an element. `onMove(name)` is called when the user selects a legal move. If `onCell` is
 * set, `onCell(cell)` is called instead, for every selected cell; the editor uses this.
 */
export class Board {
  constructor(host, { onMove = () => {}, onCell = null } = {}) {
    this.host = host;
    this.onMove = onMove;
    this.onCell = onCell;
    this.isFlipped = false;
    this.focus = 0;
    host.classList.add("board");
  }

  /**
   * Show a position in the server's format. Moves can be made if `isActive` is true. `heat` maps
   * moves to shares in [0, 1], and `notes` maps them to short texts on the board.
   */
  show(position, { isActive = true, heat = {}, notes = {}, showLegal = true } = {}) {
    const hadFocus = this.host.contains(document.activeElement);
    this.position = position;
    this.isActive = isActive && position.outcome === null;
    const { rows, columns } = position;
    const size = `${-MARGIN} ${-MARGIN} ${columns + 1.2 * MARGIN} ${rows + 1.2 * MARGIN}`;
    const game = position.game.split(":")[0];
    this.byCell = this.#legalByCell();
    const drawing = svg(
      "svg",
      { viewBox: size, role: "group", "aria-label": this.summary() },
      this.#labels(),
      svg("g", {}, this.#each((cell) => this.#square(cell))),
      svg("g", {}, this.#each((cell) => this.#heat(cell, heat))),
      svg("g", { class: game === "othello" ? "discs" : null }, this.#each((cell) => this.#piece(cell))),
      svg("g", {}, this.#each((cell) => (showLegal ? this.#dot(cell, heat, notes) : null))),
      svg("g", {}, this.#each((cell) => this.#note(cell, notes))),
      this.#last(),
      svg("g", { role: "grid", "aria-label": "Board" }, this.#targetRows()),
    );
    this.host.replaceChildren(drawing, this.#others());
    if (hadFocus) this.#focusOn(this.focus);
  }

  flip() {
    this.isFlipped = !this.isFlipped;
  }

  /** Description of the position in words. */
  summary() {
    const { position } = this;
    const count = (side) => position.board.flat().filter((piece) => piece === side).length;
    const pieces = `X has ${count(1)} pieces, O has ${count(-1)}.`;
    return `${status(position)} ${pieces} ${position.note}`.trim();
  }

  #each(make) {
    const cells = this.position.rows * this.position.columns;
    return Array.from({ length: cells }, (_, cell) => make(cell));
  }

  /** Row and column in which a cell is drawn. */
  #place(cell) {
    const { rows, columns } = this.position;
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    if (!this.isFlipped) return [row, column];
    return isUpright(this.position) ? [row, columns - 1 - column] : [rows - 1 - row, columns - 1 - column];
  }

  #legalByCell() {
    const { legal, rows, columns, board } = this.position;
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
    const { columns, rows } = this.position;
    const below = cell + columns;
    const falls = this.position.legal.some((move) => move.name === name && move.column !== null);
    return falls && below < rows * columns && this.byCell.get(below) === name ? null : name;
  }

  #labels() {
    const { rows, columns, column_labels: labels } = this.position;
    const texts = [];
    for (let column = 0; column < columns; column++) {
      const x = (this.isFlipped ? columns - 1 - column : column) + 0.5;
      texts.push(svg("text", { class: "label", x, y: -0.28, "aria-hidden": "true" }, labels[column]));
    }
    if (isUpright(this.position)) return texts;
    for (let row = 0; row < rows; row++) {
      const y = (this.isFlipped ? rows - 1 - row : row) + 0.5;
      texts.push(svg("text", { class: "label", x: -0.28, y, "aria-hidden": "true" }, `${row + 1}`));
    }
    return texts;
  }

  #square(cell) {
    const [row, column] = this.#place(cell);
    return svg("rect", { class: "cell", x: column, y: row, width: 1, height: 1 });
  }

  #heat(cell, heat) {
    const share = heat[this.#shownMove(cell)];
    if (!share) return null;
    const [row, column] = this.#place(cell);
    const opacity = 0.12 + 0.75 * Math.sqrt(share);
    return svg("rect", { class: "heat", x: column, y: row, width: 1, height: 1, opacity });
  }

  #piece(cell) {
    const piece = this.#pieceAt(cell);
    if (piece === 0) return null;
    const [row, column] = this.#place(cell);
    const [cx, cy] = [column + 0.5, row + 0.5];
    const disc = svg("circle", { class: `piece ${PIECES[piece]}`, cx, cy, r: 0.4 });
    // Letters in addition to colours, for users who cannot distinguish the colours.
    const mark = svg("text", { class: `mark of-${PIECES[piece]}`, x: cx, y: cy + 0.02 }, SIDES[piece]);
    return svg("g", {}, disc, mark);
  }

  #pieceAt(cell) {
    const { board, columns } = this.position;
    return board[Math.floor(cell / columns)][cell % columns];
  }

  #dot(cell, heat, notes) {
    const name = this.#shownMove(cell);
    if (name === null || !this.isActive || heat[name] || notes[name]) return null;
    const [row, column] = this.#place(cell);
    return svg("circle", { class: "legal", cx: column + 0.5, cy: row + 0.5, r: 0.1 });
  }

  #note(cell, notes) {
    const text = notes[this.#shownMove(cell)];
    if (!text) return null;
    const [row, column] = this.#place(cell);
    const lines = String(text).split("\n");
    return lines.map((line, number) => {
      const y = row + 0.5 + 0.28 * (number - (lines.length - 1) / 2);
      return svg("text", { class: "note", x: column + 0.5, y }, line);
    });
  }

  #last() {
    const cell = this.position.last_cell;
    if (cell === null) return null;
    const [row, column] = this.#place(cell);
    return svg("circle", { class: "last", cx: column + 0.5, cy: row + 0.5, r: 0.44 });
  }

  /** Cells to click and focus. One cell is in the tab order, and arrow keys move between cells. */
  #targetRows() {
    const { rows, columns } = this.position;
    const cells = this.#each((cell) => [cell, ...this.#place(cell)]);
    return Array.from({ length: rows }, (_, row) => {
      const inRow = cells.filter((each) => each[1] === row).sort((a, b) => a[2] - b[2]);
      return svg("g", { role: "row" }, inRow.map(([cell]) => this.#target(cell, columns)));
    });
  }

  #target(cell, columns) {
    const [row, column] = this.#place(cell);
    const canMove = this.onCell !== null || (this.isActive && this.byCell.has(cell));
    return svg("rect", {
      class: "target",
      role: "gridcell",
      x: column,
      y: row,
      width: 1,
      height: 1,
      "data-cell": cell,
      "data-move": this.byCell.get(cell) ?? null,
      tabindex: cell === Math.min(this.focus, this.position.rows * columns - 1) ? 0 : -1,
      "aria-label": this.#cellName(cell),
      "aria-disabled": String(!canMove),
      onclick: () => this.#choose(cell),
      onkeydown: (event) => this.#key(event, cell),
    });
  }

  #cellName(cell) {
    const { columns, column_labels: labels, last_cell: last } = this.position;
    const name = `${labels[cell % columns]}${Math.floor(cell / columns) + 1}`;
    const piece = this.#pieceAt(cell);
    const content = piece === 0 ? "empty" : SIDES[piece];
    const legal = this.isActive && this.byCell.has(cell) ? ", legal move" : "";
    return `${name} ${content}${cell === last ? ", last move" : ""}${legal}`;
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
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const [row, column] = this.#place(cell);
    const destination = [row + step[0], column + step[1]].join();
    const next = this.#each((each) => each).find((each) => this.#place(each).join() === destination);
    if (next !== undefined) this.#focusOn(next);
  }

  #focusOn(cell) {
    this.focus = cell;
    for (const target of this.host.querySelectorAll(".target")) {
      const hasFocus = Number(target.dataset.cell) === cell;
      target.setAttribute("tabindex", hasFocus ? 0 : -1);
      if (hasFocus) target.focus();
    }
  }

  /** Buttons for moves without a cell, such as a pass. */
  #others() {
    const moves = this.position.legal.filter((move) => move.cell === null && move.column === null);
    const buttons = moves.map(({ name }) =>
      el(
        "button",
        { type: "button", "data-move": name, disabled: !this.isActive, onclick: () => this.onMove(name) },
        name,
      ),
    );
    return el("div", { class: "row" }, buttons);
  }
}

/** True if pieces fall, so that a move is a column. */
const isUpright = (position) => position.game.startsWith("connect_four");

/** Side to move, or the result. */
export function status(position) {
  const results = { first: "X has won.", second: "O has won.", draw: "The game is drawn." };
  return results[position.outcome] ?? `${position.first_to_move ? "X" : "O"} is to move.`;
}

/** Heat and notes for the board: visit shares or priors, and values or exact scores. */
export function notesOf(analysis, solution = null) {
  const heat = {};
  const notes = {};
  const total = analysis?.simulations || 0;
  for (const move of analysis?.moves ?? []) {
    const share = total ? move.visits / total : (move.prior ?? 0);
    heat[move.name] = share;
    if (share >= 0.005 || move.value === null) notes[move.name] = share ? percent(share) : "";
    if (move.value !== null && share >= 0.005) notes[move.name] += `\n${signed(move.value)}`;
  }
  for (const [name, score] of Object.entries(solution?.scores ?? {})) {
    const exact = score > 0 ? `+${score}` : `${score}`.replace("-", "−");
    notes[name] = notes[name] ? `${notes[name].split("\n")[0]}\n= ${exact}` : `= ${exact}`;
  }
  return { heat, notes };
}
