// Curves in charts (colours, drawn points, smoothed values and paths), and sparklines, which are
// small curves without axes.

import { el, svg } from "./dom.js";
import { format, linearScale } from "./scales.js";

const DASHES = [null, "7 4", "2 4", "8 3 2 3"]; // as for .swatch in css/charts.css
const DOT_ROOM = 8; // minimum distance between dots in pixels

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** Measured points of a series that a scale can show. */
export const shown = (points, isLog) => points.filter(([, y]) => isNumber(y) && (!isLog || y > 0));

/**
 * Points with exponentially smoothed values. The current value has a weight of 1, and each earlier
 * value `weight` times that of its successor, so that the first values are not biased towards 0.
 */
export function smoothed(points, weight) {
  let [sum, total] = [0, 0];
  return points.map(([x, y]) => {
    if (!isNumber(y)) return [x, y];
    sum = sum * weight + y;
    total = total * weight + 1;
    return [x, sum / total];
  });
}

/** Point in a series that is nearest to x, or null if x is outside the series. */
export function nearest(points, x) {
  if (!points.length || x < points[0][0] || x > points.at(-1)[0]) return null;
  return points.reduce((best, each) => (Math.abs(each[0] - x) < Math.abs(best[0] - x) ? each : best));
}

/** Drawing of a series: interval, raw curve if smoothed, curve, and dots if there is room. */
export function curve(series, x, y, { isLog, smoothing, width }) {
  const elements = [];
  const dash = DASHES[(series.dash ?? 0) % DASHES.length];
  const band = (series.band ?? []).filter(([, low]) => !isLog || low > 0);
  if (band.length > 1) {
    const up = band.map(([at, , high]) => `${x(at)},${y(high)}`);
    const down = band.map(([at, low]) => `${x(at)},${y(low)}`).reverse();
    elements.push(svg("polygon", { points: [...up, ...down].join(" "), fill: series.colour, opacity: 0.15 }));
  }
  const stroke = { stroke: series.colour, "stroke-dasharray": dash };
  if (smoothing) elements.push(svg("path", { class: "raw", d: path(series.points, x, y, isLog), stroke: series.colour }));
  const points = smoothing ? smoothed(series.points, smoothing) : series.points;
  elements.push(svg("path", { class: "curve", d: path(points, x, y, isLog), ...stroke }));
  const dots = shown(points, isLog);
  if (!smoothing && dots.length * DOT_ROOM <= width) {
    for (const [at, value] of dots) elements.push(svg("circle", { cx: x(at), cy: y(value), r: 2.6, fill: series.colour }));
  }
  return svg("g", { "data-name": series.name }, elements);
}

/** Path through points, with gaps where there is no value. */
export function path(points, x, y, isLog = false) {
  let [text, isDrawing] = ["", false];
  for (const [at, value] of points) {
    const isShown = isNumber(value) && (!isLog || value > 0);
    if (isShown) text += `${isDrawing ? "L" : "M"}${x(at).toFixed(1)},${y(value).toFixed(1)}`;
    isDrawing = isShown;
  }
  return text;
}

const COLOURS = 12; // --series-1 to --series-12 in css/charts.css
const KNOWN = {
  policy: 1, "best network": 1, "with search": 1, "exact result": 1, selfplay: 1,
  value: 2, candidate: 2, "network alone": 2, "agent's value": 2, learn: 2,
};
const others = [];
const numbers = new Map(); // colour numbers of the displayed runs

/** CSS colour of the series called `name`, the same in every chart on a page. */
export const colourOf = (name) => colour(KNOWN[name] ?? 3 + (numberIn(others, name) % (COLOURS - 2)));

/** Give each displayed run the first free colour, which it keeps while it is displayed. */
export function keepColours(runs) {
  for (const run of numbers.keys()) if (!runs.includes(run)) numbers.delete(run);
  for (const run of runs.filter((each) => !numbers.has(each))) {
    const taken = [...numbers.values()];
    let number = 0;
    while (taken.includes(number)) number += 1;
    numbers.set(run, number);
  }
}

/** CSS colour of a displayed run. */
export const colourOfRun = (run) => colour(1 + (numbers.get(run) % COLOURS));

const colour = (number) => `var(--series-${number})`;

function numberIn(names, name) {
  if (!names.includes(name)) names.push(name);
  return names.indexOf(name);
}

const [WIDTH, HEIGHT, MARGIN] = [96, 24, 3]; // of a sparkline

/** Drawing of a trend {name, values}, with its latest value as text; empty without values. */
export function sparkline({ name, values }) {
  if (!values.length) return "";
  const x = linearScale([0, Math.max(1, values.length - 1)], [MARGIN, WIDTH - MARGIN]);
  const y = linearScale([Math.min(...values), Math.max(...values)], [HEIGHT - MARGIN, MARGIN]);
  const latest = format(values.at(-1), 3);
  const label = `${name}, from ${format(values[0], 3)} to ${latest}`;
  const drawing = svg(
    "svg",
    { class: "spark", width: WIDTH, height: HEIGHT, role: "img", "aria-label": label },
    svg("path", { d: path([...values.entries()], x, y) }),
    svg("circle", { cx: x(values.length - 1), cy: y(values.at(-1)), r: 2.5 }),
  );
  return el("span", { class: "trend" }, drawing, el("span", { class: "soft" }, `${name} ${latest}`));
}
