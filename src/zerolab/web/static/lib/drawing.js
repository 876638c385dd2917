// Boards as SVG, drawn from the shapes that the server sends with a position (zerolab.report.board_shapes).

import { svg } from "./dom.js";

const HALF_A_PIECE = 0.32; // visible part of a piece above an upright board

/** Geometry of the board of a position, in units of a cell. A flipped board is seen from behind. */
export class Drawing {
  constructor({ shapes }, isFlipped) {
    Object.assign(this, shapes, { isFlipped, isUpright: shapes.drop_height !== null });
    const [left, top, width, height] = shapes.bounds;
    const above = this.isUpright ? shapes.drop_height - HALF_A_PIECE : top;
    this.view = [left, above, width, height + top - above];
  }

  /** Row and column at which a cell is displayed. Pieces fall downwards on a flipped board too. */
  place(cell) {
    const [row, column] = [Math.floor(cell / this.columns), cell % this.columns];
    if (!this.isFlipped) return [row, column];
    return [this.isUpright ? row : this.rows - 1 - row, this.columns - 1 - column];
  }

  /** Coordinates of the centre of a cell. */
  cellCentre(cell) {
    const [row, column] = this.place(cell);
    return [this.origin[0] + column + row * this.row_step[0], this.origin[1] + row * this.row_step[1]];
  }

  /** Width divided by height, and the shares of the height above and below the board's frame. */
  get proportions() {
    const [, top, width, height] = this.view;
    const [, frameTop, , frameHeight] = this.frame;
    const above = (frameTop - top) / height;
    return { ratio: width / height, above, below: 1 - above - frameHeight / height };
  }

  /** Elements of a symbol around the origin, such as the piece "first". */
  symbol(name) {
    return this.cell_symbols[name].map((shape) => element(shape));
  }

  /** Clickable area of a cell. */
  area(cell, attributes) {
    return element(this.cell_symbols.area[0], { transform: this.transform(cell), ...attributes });
  }

  /** Transform attribute that moves something from the origin to a cell. */
  transform(cell) {
    return `translate(${this.cellCentre(cell).join(" ")})`;
  }

  /** Board below the pieces. */
  below() {
    const [left, top, width, height] = this.frame;
    const isTurned = this.isFlipped && !this.isUpright;
    const turn = isTurned ? `rotate(180 ${left + width / 2} ${top + height / 2})` : null;
    return svg("g", { transform: turn }, this.shapes_below_pieces.map((shape) => this.#elements(shape)));
  }

  /** Frame in front of the pieces. */
  before() {
    return this.shapes_above_pieces.map((shape) => this.#elements(shape));
  }

  /** Names of the columns and rows. */
  names() {
    const labels = this.isFlipped ? this.labels_from_behind : this.labels;
    return labels.map(([x, y, text]) => svg("text", { class: "label", x, y, "aria-hidden": "true" }, text));
  }

  /** Elements of a shape: one for the board, with any holes in its cells, or one for every cell. */
  #elements(shape) {
    const cells = Array.from({ length: this.rows * this.columns }, (_, cell) => cell);
    if (shape.is_per_cell) return cells.map((cell) => element(shape, { transform: this.transform(cell) }));
    if (!shape.cell_hole_path) return element(shape);
    const holes = cells.map((cell) => `M${this.cellCentre(cell).join(" ")}${shape.cell_hole_path}`);
    return element(shape, { d: shape.attributes.d + holes.join("") });
  }
}

const element = ({ tag, css_class: name, attributes, text }, more = {}) => svg(tag, { class: name, ...attributes, ...more }, text || null);
