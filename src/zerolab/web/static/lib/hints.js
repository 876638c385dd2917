// Hints for the moves on a board: the result of each move, its share of the visits, and its rank.

import { el, percent, signed, svg } from "./dom.js";
import { piecesOf } from "./lines.js";

const LEAST_SHARE = 0.005; // smallest share that is shown; it rounds to 1 %
const MOST_RANKS = 5;
const NOTE = 0.225; // text size in cells
const LEAST_PIXELS = 12;
const COMPACT = 0.27; // size above which text is shortened to fit
const KINDS = { 1: "wins", 0: "draws", "-1": "loses" };
const LETTERS = { wins: "W", draws: "D", loses: "L" };

/**
 * Hints by move from an analysis and exact scores, each of which may be null.
 *
 * A hint has a `kind`, "wins", "draws" or "loses" according to the exact scores, and a `value` for
 * the side to move; each is null if unknown. Its `words` are for screen readers. With `byVisits`, a
 * larger share of the visits makes the colour stronger. With `withRanks`, the best moves are numbered.
 */
export function hintsOf(analysis, solution = null, { byVisits = false, withRanks = false } = {}) {
  const scores = solution?.scores ?? {};
  const shares = sharesOf(analysis);
  const most = Math.max(0, ...shares.values());
  const highest = Math.max(...Object.values(scores));
  const values = new Map((analysis?.moves ?? []).map((move) => [move.name, move.value]));
  const names = [...shares.keys()].filter((name) => shares.get(name) >= LEAST_SHARE);
  const hints = {};
  for (const name of new Set([...names, ...Object.keys(scores)])) {
    const [share, value] = [shares.get(name) ?? 0, values.get(name) ?? null];
    const kind = name in scores ? KINDS[Math.sign(scores[name])] : null;
    const exact = kind === null ? "" : exactText(kind, scores[name]);
    const first = share >= LEAST_SHARE ? percent(share) : "";
    const exactOrValue = exact || (value === null ? "" : signed(value));
    const lines = [first, exactOrValue].filter(Boolean);
    const isBest = analysis ? share > 0 && share === most : scores[name] === highest;
    const result = kind === null ? exactOrValue : kind + exact.slice(1);
    const strength = byVisits ? Math.sqrt(share) : 1;
    const hint = { share, value, kind, strength, lines, isBest, rank: null };
    hint.words = [first, result, isBest ? "best" : ""].filter(Boolean).join(", ");
    hints[name] = Object.assign(hint, { draw: (drawing, pixel) => plate(hint, drawing, pixel) });
  }
  if (withRanks) rank(hints, scores);
  return hints;
}

/** Each move's share of the visits, or its prior if the agent does not search. */
function sharesOf(analysis) {
  const total = analysis?.simulations || 0;
  return new Map((analysis?.moves ?? []).map((move) => [move.name, total ? move.visits / total : (move.prior ?? 0)]));
}

const exactText = (kind, score) => (score === 0 ? LETTERS[kind] : `${LETTERS[kind]} ${signed(score, 0)}`);

/** Number the best moves by their exact scores, then by their shares. */
function rank(hints, scores) {
  const order = ([a, one], [b, other]) => (scores[b] ?? 0) - (scores[a] ?? 0) || other.share - one.share;
  const best = Object.entries(hints).sort(order).slice(0, MOST_RANKS);
  best.forEach(([, hint], index) => (hint.rank = index + 1));
}

/**
 * Elements of a hint in the middle of a cell: a plate, the lines of its text, and its rank. `pixel`
 * is the size of a screen pixel in cells.
 */
function plate(hint, drawing, pixel) {
  const size = Math.max(NOTE, LEAST_PIXELS * pixel);
  const [shape] = drawing.symbol("hint");
  shape.classList.add(...[tone(hint), hint.isBest ? "best" : ""].filter(Boolean));
  const isPlain = tone(hint) === "";
  shape.style.setProperty("--share", `${100 * (isPlain ? Math.sqrt(hint.share) : hint.strength)}%`);
  if (hint.kind === null) shape.style.setProperty("--certainty", `${100 * Math.min(1, Math.abs(hint.value ?? 0))}%`);
  const lines = size > COMPACT ? hint.lines.map(compact) : hint.lines;
  const texts = lines.map((line, number) => text(line, 0, 1.07 * size * (number - (lines.length - 1) / 2), size));
  return [shape, ...texts, ...(hint.rank === null ? [] : badge(hint.rank, size))];
}

/** CSS class for the colour: the exact result of the move or, if unknown, the sign of its value. */
function tone({ kind, value }) {
  if (kind !== null) return kind;
  if (value === null) return "";
  return value >= 0 ? "wins" : "loses";
}

/** Shorter text for small cells: "45%", "+.12", "−1" and "L8", where the letter implies the sign. */
const compact = (line) =>
  line.replaceAll(" ", "").replace(/^([WL])[+−]/, "$1").replace("0.", ".").replace("1.00", "1").replace("100%", "100");

function text(content, x, y, size) {
  const element = svg("text", { class: "note", x, y }, content);
  element.style.fontSize = `${size}px`;
  return element;
}

function badge(number, size) {
  const [x, y] = [-0.36, -0.34];
  return [svg("circle", { class: "rank", cx: x, cy: y, r: 0.62 * size }), text(number, x, y, size)];
}

/** Board overlay that shows a line of moves from a position as numbered pale pieces. */
export const ghostsOf = (position, line) => (drawing, disc, pixel) => {
  const size = Math.max(0.32, LEAST_PIXELS * pixel);
  return piecesOf(position, line).map(({ cell, side, number }) => {
    return svg("g", { transform: drawing.transform(cell) }, disc(side), svg("circle", { class: "rank", r: 0.78 * size }), text(number, 0, 0, size));
  });
};

/** Legend for the colours of hints. */
export function hintLegend(analysis, solution) {
  const swatch = (kind, words) => el("span", { class: `tone ${kind}` }, words);
  const isExact = Boolean(solution?.scores);
  const parts = isExact
    ? [swatch("wins", "W: wins under perfect play"), swatch("draws", "D: draws"), swatch("loses", "L: loses")]
    : [swatch("wins", "+: good for the side to move"), swatch("draws", "near 0: even"), swatch("loses", "−: bad")];
  const visits = analysis?.simulations ? "Percentages are shares of the visits; a thick ring marks the most visited move." : "";
  return el("p", { class: "hint-legend" }, parts, visits ? el("span", {}, visits) : null);
}
