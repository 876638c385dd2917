// Editor for setting up pieces on a board by clicking.

const NEXT = { 0: 1, 1: -1, "-1": 0 };
const LETTERS = { 0: ".", 1: "X", "-1": "O" };

/**
 * Editor for a board's cells, with a button that starts and ends it, a button that clears the board,
 * and a menu for the side to move.
 *
 * `position()` returns the position to start from, or null if there is none. `onStart()` is called
 * when the editing begins, `onChange(setUp)` after each change, and `onDone(setUp)` at the end.
 * `setUp` contains the pieces and the side to move in the format of requests.
 */
export class Editor {
  constructor(board, { toggle, clear, mover }, { position, onStart, onChange, onDone }) {
    this.board = board;
    this.controls = { toggle, clear, mover };
    this.onChange = onChange;
    this.isOn = false;
    toggle.addEventListener("click", () => {
      if (this.isOn) onDone(this.#setUp());
      else if (position()) {
        onStart();
        this.#start(position());
      }
    });
    clear.addEventListener("click", () => {
      for (const row of this.position.board) row.fill(0);
      this.#changed();
    });
    mover.addEventListener("change", () => this.#changed());
  }

  #start(position) {
    this.position = {
      ...position, legal_moves: [], last_cell: null, winning_cells: [], result: null, board: position.board.map((row) => [...row]),
    };
    this.controls.mover.value = position.first_to_move ? "first" : "second";
    this.board.onCell = (cell) => this.#advance(cell);
    this.#switch(true);
    this.#show();
  }

  /** End the editing without calling `onDone`. */
  stop() {
    this.board.onCell = null;
    this.#switch(false);
  }

  #switch(isOn) {
    this.isOn = isOn;
    const { toggle, clear, mover } = this.controls;
    toggle.setAttribute("aria-pressed", String(isOn));
    toggle.textContent = isOn ? "Done" : "Set up pieces";
    clear.disabled = mover.disabled = !isOn;
  }

  #setUp() {
    const board = this.position.board.map((row) => row.map((piece) => LETTERS[piece]).join(""));
    return { board, first_to_move: this.controls.mover.value === "first" };
  }

  #advance(cell) {
    const row = this.position.board[Math.floor(cell / this.position.columns)];
    const column = cell % this.position.columns;
    row[column] = NEXT[row[column]];
    this.#changed();
  }

  #changed() {
    this.#show();
    this.onChange(this.#setUp());
  }

  #show() {
    this.board.show(this.position, { showLegal: false });
  }
}
