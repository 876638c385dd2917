// Values of all positions in a game, from one request that is sent after the board is shown.

import { post } from "./api.js";

const PAUSE = 300; // milliseconds without changes before a request

/** Latest values for a game. `onChange()` is called when they arrive. */
export class GameValues {
  constructor(onChange) {
    this.onChange = onChange;
    this.points = [];
    this.problem = "";
    this.wanted = "";
  }

  /** Request an agent's values up to a final position, unless they are already known or requested. */
  want(request) {
    const wanted = JSON.stringify(request);
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    Object.assign(this, { points: [], problem: "" });
    clearTimeout(this.timer);
    if (request.position.moves.length && request.agent) this.timer = setTimeout(() => this.#load(request, wanted), PAUSE);
  }

  /** Value for X at a ply, or null if it is unknown. */
  at(ply) {
    return this.points[ply]?.[1] ?? null;
  }

  async #load(request, wanted) {
    let [points, problem] = [[], ""];
    try {
      const { values } = await post("/values", request);
      points = values.map((value, ply) => [ply, value]);
    } catch ({ message }) {
      problem = `No values for the whole game: ${message}${/[.?!]$/.test(message) ? "" : "."}`;
    }
    if (wanted !== this.wanted) return; // the game has changed
    if (problem) this.wanted = ""; // so that the values can be requested again
    Object.assign(this, { points, problem });
    this.onChange();
  }
}
