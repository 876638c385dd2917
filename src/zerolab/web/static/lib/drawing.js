// Boards as SVG: places and shapes of cells, and everything that stays while pieces come and go.
// A game chooses among these drawings in its Python file (zerolab.rules.drawing).

import { svg } from "./dom.js";

const HEX_STEP = Math.sqrt(3) / 2; // distance of two rows of hexagons whose width is 1
const HEX_RADIUS = 1 / Math.sqrt(3);
const HOLE = 0.41;
const RADII = { squares: 0.41, points: 0.45, holes: HOLE, hexagons: 0.37 }; // of pieces
const MARGIN = 0.55; // for the labels of rows and columns
const RIM = 0.14; // of a board beyond its cells

/** Geometry of the board of a position, in units of a cell. A flipped board is seen from behind. */
export class Drawing {
  constructor({ rows, columns, column_labels: labels, drawing }, isFlipped) {
    Object.assign(this, { rows, columns, labels, isFlipped, ...drawing });
    this.isUpright = this.cells === "holes";
    this.isHexagonal = this.cells === "hexagons";
    this.radius = RADII[this.cells];
    this.width = this.isHexagonal ? columns + (rows - 1) / 2 : columns;
    this.height = this.isHexagonal ? (rows - 1) * HEX_STEP + 2 * HEX_RADIUS : rows;
  }

  /** Row and column in which a cell is seen. Pieces fall downwards on a flipped board, too. */
  place(cell) {
    const [row, column] = [Math.floor(cell / this.columns), cell % this.columns];
    if (!this.isFlipped) return [row, column];
    return [this.isUpright ? row : this.rows - 1 - row, this.columns - 1 - column];
  }

  /** Coordinates of the middle of a cell. */
  middle(cell) {
    return this.#middleOf(...this.place(cell));
  }

  #middleOf(row, column) {
    if (this.isHexagonal) return [column + row / 2 + 0.5, row * HEX_STEP + HEX_RADIUS];
    return [column + 0.5, row + 0.5];
  }

  /** Bounds of the whole drawing, with labels, and above an upright board with a place for half a piece. */
  get viewBox() {
    const { left, top, right, bottom } = this.#margins;
    return [-left, -top, this.width + left + right, this.height + top + bottom].join(" ");
  }

  /** Width divided by height, and the shares of the height above and below the board's frame. */
  get proportions() {
    const { left, top, right, bottom } = this.#margins;
    const height = this.height + top + bottom;
    return { ratio: (this.width + left + right) / height, above: (top - RIM) / height, below: (bottom - RIM) / height };
  }

  get #margins() {
    return this.isUpright
      ? { left: 1.2 * RIM, top: 0.65, right: 1.2 * RIM, bottom: MARGIN + RIM }
      : { left: MARGIN + RIM, top: MARGIN + RIM, right: 1.2 * RIM, bottom: 1.2 * RIM };
  }

  /** Area of a cell, which can be clicked. */
  area(cell, attributes) {
    const [x, y] = this.middle(cell);
    if (this.isHexagonal) return svg("polygon", { points: hexagon(x, y).join(" "), ...attributes });
    return svg("rect", { x: x - 0.5, y: y - 0.5, width: 1, height: 1, ...attributes });
  }

  /** Board below the pieces. */
  ground() {
    const { width, height } = this;
    const slab = { x: -RIM, y: -RIM, width: width + 2 * RIM, height: height + 2 * RIM, rx: RIM };
    if (this.isHexagonal) return [this.#edges(), this.#cells()];
    if (this.isUpright) return [svg("rect", { ...slab, class: "back" })];
    const lines = this.cells === "points" ? this.#crossings() : this.#cells();
    return [svg("rect", { ...slab, class: "slab" }), lines, this.#stars()];
  }

  /** Frame before the pieces, with holes. */
  front() {
    if (!this.isUpright) return [];
    const middles = this.#all((cell) => this.middle(cell));
    const holes = middles.map(([x, y]) => `M${x - HOLE} ${y}a${HOLE} ${HOLE} 0 1 0 ${2 * HOLE} 0a${HOLE} ${HOLE} 0 1 0 ${-2 * HOLE} 0`);
    const turn = (x, y) => `a${RIM} ${RIM} 0 0 1 ${x * RIM} ${y * RIM}`;
    const sheet = `M0 ${-RIM}h${this.width}${turn(1, 1)}v${this.height}${turn(-1, 1)}h${-this.width}${turn(-1, -1)}v${-this.height}${turn(1, -1)}z`;
    const rims = middles.map(([cx, cy]) => svg("circle", { class: "rim", cx, cy, r: HOLE + 0.02 }));
    return [svg("path", { class: "sheet", "fill-rule": "evenodd", d: sheet + holes.join("") }), rims];
  }

  /** Names of the columns and rows, as in the names of moves. */
  names() {
    const text = (x, y, name) => svg("text", { class: "label", x, y, "aria-hidden": "true" }, name);
    const shown = (number, count) => (this.isFlipped ? count - 1 - number : number);
    const y = this.isUpright ? this.height + RIM + 0.26 : -RIM - 0.24;
    const columns = this.labels.map((label, column) => text(this.#middleOf(0, shown(column, this.columns))[0], y, label));
    if (this.isUpright) return columns;
    const rows = Array.from({ length: this.rows }, (_, row) => {
      const [x, middle] = this.#middleOf(shown(row, this.rows), 0);
      return text(x - 0.5 - RIM - 0.24, middle, `${row + 1}`);
    });
    return [...columns, ...rows];
  }

  #all(make) {
    return Array.from({ length: this.rows * this.columns }, (_, cell) => make(cell));
  }

  #cells() {
    return this.#all((cell) => this.area(cell, { class: "cell" }));
  }

  #crossings() {
    const [right, bottom] = [this.columns - 0.5, this.rows - 0.5];
    const across = Array.from({ length: this.rows }, (_, row) => `M0.5 ${row + 0.5}H${right}`);
    const down = Array.from({ length: this.columns }, (_, column) => `M${column + 0.5} 0.5V${bottom}`);
    return svg("path", { class: "lines", d: across.join("") + down.join("") });
  }

  /** Dots for orientation: on crossings as on a Go board, and on corners of squares as in Othello. */
  #stars() {
    if (this.surface !== "felt" && this.cells !== "points") return [];
    const places = this.cells === "points" ? starPoints(this.rows, this.columns) : starCorners(this.rows, this.columns);
    return places.map(([cy, cx]) => svg("circle", { class: "star", cx, cy, r: 0.07 }));
  }

  /** Coloured borders of hexagons: each joins the outer corners of the cells of one edge. */
  #edges() {
    if (this.edges === null) return [];
    const [bottom, right] = [this.rows - 1, this.columns - 1];
    const corners = (row, column) => hexagon(...this.#middleOf(row, column));
    const line = (count, cell, sides) => Array.from({ length: count }, (_, number) => sides.map((side) => corners(...cell(number))[side])).flat();
    const sides = [
      line(this.columns, (column) => [0, column], [5, 0, 1]),
      line(this.rows, (row) => [row, right], [0, 1, 2]),
      line(this.columns, (column) => [bottom, column], [4, 3, 2]),
      line(this.rows, (row) => [row, 0], [5, 4, 3]),
    ];
    const owner = (side) => this.edges[(side + (this.isFlipped ? 2 : 0)) % 4];
    return sides.map((points, side) => svg("polyline", { class: `edge of-${owner(side)}`, points: trimmed(points, side).join(" ") }));
  }
}

/** Corners of a hexagon, clockwise from the top. */
const hexagon = (x, y) =>
  [0, 1, 2, 3, 4, 5].map((corner) => {
    const angle = (corner * Math.PI) / 3;
    return [x + HEX_RADIUS * Math.sin(angle), y - HEX_RADIUS * Math.cos(angle)];
  });

/** Two edges meet in the middle of the side that they share, at the sharp corners of the rhombus. */
function trimmed(points, side) {
  const half = ([x, y], [u, v]) => [(x + u) / 2, (y + v) / 2];
  if (side === 1 || side === 2) return [half(points[0], points[1]), ...points.slice(1)];
  return [...points.slice(0, -1), half(points.at(-1), points.at(-2))];
}

function starPoints(rows, columns) {
  const middle = rows % 2 && columns % 2 ? [[rows / 2, columns / 2]] : [];
  if (Math.min(rows, columns) < 7) return middle;
  return [...middle, ...[2.5, rows - 2.5].flatMap((y) => [2.5, columns - 2.5].map((x) => [y, x]))];
}

function starCorners(rows, columns) {
  if (Math.min(rows, columns) < 6) return [];
  return [2, rows - 2].flatMap((y) => [2, columns - 2].map((x) => [y, x]));
}
