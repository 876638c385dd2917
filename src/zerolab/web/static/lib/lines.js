// Lines of positions, and the cells of the moves in a line from a position.

/** Give all positions in a line the board's shapes, which the server sends only with the first one. */
export function withShapes(line) {
  return line.map((position) => ({ ...position, shapes: line[0].shapes }));
}

/** Names of all cells, such as d3, in the order of their numbers. */
export function cellNames({ rows, columns, column_labels: labels }) {
  return Array.from({ length: rows * columns }, (_, cell) => `${labels[cell % columns]}${Math.floor(cell / columns) + 1}`);
}

/**
 * Pieces that the moves of a line place: their cells, sides (1 or -1) and numbers from 1. Moves
 * without a cell, such as passes, place no piece but keep their number.
 */
export function piecesOf(position, line) {
  const { rows, columns, column_labels: labels, board } = position;
  const names = cellNames(position);
  const isUpright = position.drawing.cells === "holes";
  const taken = new Set(board.flat().flatMap((piece, cell) => (piece === 0 ? [] : [cell])));
  const lowest = (column) => {
    for (let row = rows - 1; row >= 0; row--) if (!taken.has(row * columns + column)) return row * columns + column;
    return -1;
  };
  let side = position.first_to_move ? 1 : -1;
  return line.flatMap((move, index) => {
    const cell = isUpright ? lowest(labels.indexOf(move)) : names.indexOf(move);
    const piece = { cell, side, number: index + 1 };
    side = -side;
    if (cell < 0) return [];
    taken.add(cell);
    return [piece];
  });
}
