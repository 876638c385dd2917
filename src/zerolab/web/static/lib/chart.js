// Line charts with axes, a legend, gaps for missing values, and a description in words.

import { el, svg } from "./dom.js";

const [WIDTH, HEIGHT] = [640, 240];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 12, 10, 34];
const COLOURS = 6;

/**
 * Draw series {name, points: [[x, y], ...], band: [[x, low, high], ...]} in an element. `y` can be
 * null. `mark` is an x to highlight, and `onPick(x)` is called with the x nearest to a click.
 */
export function lineChart(host, series, { xLabel, yLabel, range = null, mark = null, onPick = null } = {}) {
  host.classList.add("chart");
  const points = series.flatMap((each) => each.points.filter(([, y]) => isNumber(y)));
  if (!points.length) {
    host.replaceChildren(el("p", { class: "soft" }, "Nothing measured yet."));
    return;
  }
  const bands = series.flatMap((each) => each.band ?? []);
  const x = scale(extent(points.map((each) => each[0])), [LEFT, WIDTH - RIGHT]);
  const values = [...points.map((each) => each[1]), ...bands.flatMap((each) => each.slice(1))];
  const y = scale(range ?? padded(extent(values)), [HEIGHT - BOTTOM, TOP]);
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": describe(series, yLabel) },
    axes(x, y, xLabel, yLabel),
    mark === null ? null : svg("line", { class: "guide", x1: x(mark), x2: x(mark), y1: TOP, y2: HEIGHT - BOTTOM }),
    series.map((each, number) => curve(each, colour(number), x, y)),
  );
  if (onPick) {
    drawing.addEventListener("click", (event) => {
      const box = drawing.getBoundingClientRect();
      const at = x.inverse(((event.clientX - box.left) / box.width) * WIDTH);
      const nearest = points.reduce((best, each) => (Math.abs(each[0] - at) < Math.abs(best[0] - at) ? each : best));
      onPick(nearest[0]);
    });
  }
  const names = series.map((each, number) =>
    el("span", { "data-series": (number % COLOURS) + 1 }, each.name),
  );
  const legend = el("div", { class: "legend" }, names);
  names.forEach((name, number) => name.style.setProperty("--series", colour(number)));
  host.replaceChildren(drawing, series.length > 1 ? legend : "");
}

const colour = (number) => `var(--series-${(number % COLOURS) + 1})`;
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const extent = (values) => [Math.min(...values), Math.max(...values)];

function padded([low, high]) {
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - margin, high + margin];
}

function scale([low, high], [from, to]) {
  const span = high - low || 1;
  const map = (value) => from + ((value - low) / span) * (to - from);
  map.inverse = (place) => low + ((place - from) / (to - from)) * span;
  map.ends = [low, high];
  return map;
}

/** Round numbers within the range of a scale. */
function ticks([low, high], count = 5) {
  const rough = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const values = [];
  for (let value = Math.ceil(low / step) * step; value <= high + 1e-9 * step; value += step) values.push(value);
  return values;
}

const format = (value) => String(Number(value.toPrecision(6))).replace("-", "−");

function axes(x, y, xLabel, yLabel) {
  const lines = [];
  for (const value of ticks(y.ends)) {
    lines.push(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    lines.push(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  for (const value of ticks(x.ends, 8)) {
    lines.push(svg("text", { x: x(value), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, format(value)));
  }
  lines.push(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, xLabel ?? ""));
  const [cx, cy] = [11, (TOP + HEIGHT - BOTTOM) / 2];
  lines.push(svg("text", { x: cx, y: cy, "text-anchor": "middle", transform: `rotate(-90 ${cx} ${cy})` }, yLabel ?? ""));
  return svg("g", { "aria-hidden": "true" }, lines);
}

function curve(each, stroke, x, y) {
  const elements = [];
  if (each.band?.length) {
    const up = each.band.map(([at, , high]) => `${x(at)},${y(high)}`);
    const down = each.band.map(([at, low]) => `${x(at)},${y(low)}`).reverse();
    elements.push(svg("polygon", { points: [...up, ...down].join(" "), fill: stroke, opacity: 0.15 }));
  }
  let path = "";
  let isDrawing = false;
  for (const [at, value] of each.points) {
    if (isNumber(value)) path += `${isDrawing ? "L" : "M"}${x(at).toFixed(1)},${y(value).toFixed(1)}`;
    isDrawing = isNumber(value);
  }
  elements.push(svg("path", { d: path, fill: "none", stroke, "stroke-width": 2 }));
  const dots = each.points.filter(([, value]) => isNumber(value));
  if (dots.length <= 60) {
    for (const [at, value] of dots) {
      const title = svg("title", {}, `${each.name}: ${format(at)}, ${format(value)}`);
      elements.push(svg("circle", { cx: x(at), cy: y(value), r: 2.6, fill: stroke }, title));
    }
  }
  return svg("g", {}, elements);
}

function describe(series, yLabel) {
  const parts = series.map((each) => {
    const points = each.points.filter(([, value]) => isNumber(value));
    return points.length ? `${each.name} ends at ${format(points.at(-1)[1])}` : `${each.name} is empty`;
  });
  return `${yLabel ?? "Chart"}: ${parts.join("; ")}`;
}
