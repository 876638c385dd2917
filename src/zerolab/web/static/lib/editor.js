// Editor for setting up pieces on a board by clicking.

const NEXT = { 0: 1, 1: -1, "-1": 0 };
const LETTERS = { 0: ".", 1: "X", "-1": "O" };

/** Editor for a board's cells. `onChange()` is called after each change. */
export class Editor {
  constructor(board, onChange) {
    this.board = board;
    this.onChange = onChange;
    this.isOn = false;
  }

  start(position) {
    this.isOn = true;
    this.position = {
      ...position, legal_moves: [], last_cell: null, winning_cells: [], result: null, board: position.board.map((row) => [...row]),
    };
    this.board.onCell = (cell) => this.#advance(cell);
    this.#show();
  }

  stop() {
    this.isOn = false;
    this.board.onCell = null;
  }

  clear() {
    for (const row of this.position.board) row.fill(0);
    this.#show();
    this.onChange();
  }

  /** Pieces in the format that requests use. */
  setUp(firstToMove) {
    const board = this.position.board.map((row) => row.map((piece) => LETTERS[piece]).join(""));
    return { board, first_to_move: firstToMove };
  }

  #advance(cell) {
    const row = this.position.board[Math.floor(cell / this.position.columns)];
    const column = cell % this.position.columns;
    row[column] = NEXT[row[column]];
    this.#show();
    this.onChange();
  }

  #show() {
    this.board.show(this.position, { showLegal: false });
  }
}
