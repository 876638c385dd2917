// Timeline of a game below its board, with its mistakes and slips.

import { el } from "./dom.js";

const NEAR = 12; // maximum distance of a click from a mistake in pixels
const WORDS = { mistake: "a mistake", slip: "a slip" };

/** Timeline in an element. `onPick(ply)` is called when the user selects the position at a ply. */
export class Timeline {
  constructor(host, onPick) {
    this.onPick = onPick;
    this.marks = [];
    this.track = el("div", {
      class: "timeline", role: "slider", tabindex: 0, "aria-label": "Timeline with mistakes", "aria-valuemin": 0,
      onclick: (event) => this.#pick(event),
    });
    host.replaceChildren(this.track);
  }

  /** Show a game with `plies` moves at position `ply`, with {ply, verdict, text} for each error. */
  show(plies, ply, errors) {
    this.plies = plies;
    const place = (at) => `${(100 * at) / Math.max(1, plies)}%`;
    this.marks = errors.map((each) => each.ply);
    const marks = errors.map(({ ply: at, verdict, text }) => {
      const mark = el("span", { class: `mark ${verdict}`, title: text }, verdict === "mistake" ? "??" : "?");
      mark.style.insetInlineStart = place(at);
      return mark;
    });
    const now = el("span", { class: "now" });
    now.style.insetInlineStart = place(ply);
    this.track.replaceChildren(el("span", { class: "rail" }), now, ...marks);
    const here = errors.find((each) => each.ply === ply);
    this.track.setAttribute("aria-valuemax", plies);
    this.track.setAttribute("aria-valuenow", ply);
    this.track.setAttribute("aria-valuetext", `Ply ${ply} of ${plies}${here ? `, ${WORDS[here.verdict]}` : ""}`);
  }

  #pick(event) {
    const { left, width } = this.track.getBoundingClientRect();
    const at = (event.clientX - left) / width;
    const distance = (ply) => Math.abs(ply / this.plies - at) * width;
    const nearest = this.marks.toSorted((a, b) => distance(a) - distance(b))[0];
    const isNear = nearest !== undefined && distance(nearest) <= NEAR;
    this.onPick(isNear ? nearest : Math.max(0, Math.min(this.plies, Math.round(at * this.plies))));
  }
}
