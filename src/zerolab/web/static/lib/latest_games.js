// Small boards of the latest self-play games; the newest is replayed move by move.

import { post } from "./api.js";
import { linkTo } from "./archive.js";
import { Board } from "./board.js";
import { el } from "./dom.js";
import { WON } from "./game_list.js";
import { withShapes } from "./lines.js";

const MOST = 4;
const MOVE_MILLISECONDS = 300;
const prefersCalm = matchMedia("(prefers-reduced-motion: reduce)");

/** List of small boards in an element. A game that arrives during a replay is shown afterwards. */
export class LatestGames {
  constructor(host) {
    this.host = host;
    this.shown = "";
    this.next = null;
    this.isBusy = false;
  }

  /** Replay a record {iteration, number, moves, result} for a game such as othello:6x6. */
  async show(game, latest) {
    this.next = { game, ...latest };
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      while (this.next && keyOf(this.next) !== this.shown) await this.#replay(this.next);
    } finally {
      this.isBusy = false;
    }
  }

  async #replay(latest) {
    const line = withShapes(await post("/line", { game: latest.game, moves: latest.moves }));
    const host = el("div", { inert: true });
    const board = new Board(host);
    const text = `Iteration ${latest.iteration}, game ${latest.number + 1}: ${WON[latest.result]} after ${latest.moves.length} moves`;
    const link = linkTo("analyse", { game: latest.game, moves: latest.moves.join(",") }, text);
    this.host.prepend(el("li", {}, host, link));
    while (this.host.children.length > MOST) this.host.lastChild.remove();
    this.shown = keyOf(latest);
    const positions = prefersCalm.matches ? line.slice(-1) : line;
    for (const position of positions) {
      board.show(position, { isActive: false, showLegal: false });
      await new Promise((done) => setTimeout(done, MOVE_MILLISECONDS));
    }
  }
}

const keyOf = ({ iteration, number, moves }) => [iteration, number, ...moves].join(" ");
