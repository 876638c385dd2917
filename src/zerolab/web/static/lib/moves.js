// The list of a game's moves, as buttons that lead to the positions after them.

import { el, replaceContent } from "./dom.js";

/** Show the moves; `current` is the ply of the position shown, `onPick(ply)` is called with the chosen one. */
export function moveList(host, moves, current, onPick, marks = {}) {
  const start = button("start", 0, current, onPick);
  const buttons = moves.map((move, index) => button(move, index + 1, current, onPick, marks[index]));
  replaceContent(host, el("div", { class: "chips moves", role: "group", "aria-label": "Moves" }, start, buttons));
}

function button(text, ply, current, onPick, mark = "") {
  const number = ply ? `${ply}. ` : "";
  return el(
    "button",
    { type: "button", "aria-current": String(ply === current), onclick: () => onPick(ply), class: mark ? "marked" : null },
    `${number}${text}${mark}`,
  );
}

/** The moves in a pasted text, without move numbers, comments and results. */
export function movesIn(text) {
  return text
    .replace(/\[[^\]]*\]|\{[^}]*\}/g, " ")
    .split(/[\s,;]+/)
    .map((word) => word.replace(/^\d+\.+/, ""))
    .filter((word) => word && !/^(1-0|0-1|1\/2-1\/2|\*)$/.test(word) && !/^\d+\.+$/.test(word));
}
