// List of stored games, whose rows are selected with the mouse or the arrow keys.

import { el, table } from "./dom.js";

export const WON = { first: "X won", second: "O won", draw: "drawn" };

/** Key of a game in a run or tournament, as in the URL. */
export const keyOf = (game) => `${game.iteration},${game.number},${game.stage}`;

export function parseKey(text) {
  const [iteration, number, ...stage] = text.split(",");
  return { iteration, number, stage: stage.join(",") };
}

/** Latest game that was won on the board, or else the latest game; `games` begins with the latest. */
export const mostInteresting = (games) => games.find((each) => each.result !== "draw" && !each.is_forfeited) ?? games[0];

/** Table of games. `onOpen(game)` is called when the user selects a row, including with the arrow keys. */
export function gameTable(games, isRun, onOpen) {
  const rows = games.map((game) => [
    el("button", { type: "button", "data-game": keyOf(game), "aria-label": `Show game ${game.number}` }, `${game.number}`),
    game.iteration, game.stage, game.first, game.second,
    WON[game.result] + (game.is_forfeited ? " by forfeit" : ""), game.plies,
    el("span", { class: "moves soft" }, game.moves.slice(0, 4).join(" ")),
  ]);
  const headings = ["game", isRun ? "iteration" : "part", "stage", "X", "O", "result", "plies", "opening"];
  const element = table(headings, rows, { numbers: [1, 6], caption: "Matching games", isDense: true });
  element.classList.add("game-list");
  element.querySelectorAll("tbody tr").forEach((row, index) => {
    row.addEventListener("click", () => onOpen(games[index]));
    row.addEventListener("keydown", (event) => moveBetweenRows(event, row));
  });
  return element;
}

/** Focus and open the next or previous game in the list. */
function moveBetweenRows(event, row) {
  const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
  if (!next) return;
  event.preventDefault();
  const button = next.querySelector("button");
  button.focus();
  button.click();
}

/** Mark the row of the game that is shown. */
export function markShown(key) {
  for (const each of document.querySelectorAll("[data-game]")) {
    const isShown = each.dataset.game === key;
    each.setAttribute("aria-pressed", String(isShown));
    each.closest("tr").classList.toggle("shown", isShown);
  }
}
