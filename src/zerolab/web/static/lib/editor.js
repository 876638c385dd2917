// An editor that sets up pieces on a board by clicks.

const NEXT = { 0: 1, 1: -1, "-1": 0 };
const LETTERS = { 0: ".", 1: "X", "-1": "O" };

/** Changes the cells of a board; `onChange()` is called after each change. */
export class Editor {
  constructor(board, onChange) {
    this.board = board;
    this.onChange = onChange;
    this.isOn = false;
  }

  start(position) {
    this.isOn = true;
    this.position = { ...position, legal: [], last_cell: null, outcome: null, board: position.board.map((row) => [...row]) };
    this.board.onCell = (cell) => this.#turn(cell);
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

  /** The pieces in the form of a request. */
  setUp(firstToMove) {
    const board = this.position.board.map((row) => row.map((piece) => LETTERS[piece]).join(""));
    return { board, first_to_move: firstToMove };
  }

  #turn(cell) {
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
