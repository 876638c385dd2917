// Move list with buttons that go to the position after each move.

import { el, replaceContent } from "./dom.js";

/**
 * Show the moves. `current` is the ply of the displayed position; `onPick(ply)` handles clicks. The
 * first `given` moves are grey, because nobody chose them.
 */
export function moveList(host, moves, current, onPick, marks = {}, given = 0) {
  const start = button("start", 0, current, onPick);
  const buttons = moves.map((move, index) => button(move, index + 1, current, onPick, marks[index], index < given));
  replaceContent(host, el("div", { class: "chips moves", role: "group", "aria-label": "Moves" }, start, buttons));
}

function button(text, ply, current, onPick, mark = "", isGiven = false) {
  const name = `${ply ? `${ply}. ` : ""}${text}${mark}`;
  return el(
    "button",
    {
      type: "button", "aria-current": String(ply === current), onclick: () => onPick(ply),
      class: isGiven ? "given" : mark ? "marked" : null, "aria-label": isGiven ? `${name}, given` : null,
    },
    name,
  );
}

/** Moves in pasted text, without move numbers, comments or results. */
export function movesIn(text) {
  return text
    .replace(/\[[^\]]*\]|\{[^}]*\}/g, " ")
    .split(/[\s,;]+/)
    .map((word) => word.replace(/^\d+\.+/, ""))
    .filter((word) => word && !/^(1-0|0-1|1\/2-1\/2|\*)$/.test(word) && !/^\d+\.+$/.test(word));
}
