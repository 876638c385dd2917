// Values with error bars, one row each, strongest first.

import { svg } from "./dom.js";
import { textWidth } from "./scales.js";

const [ROW, MARGIN, WIDEST, FOOT] = [24, 26, 820, 34];
const TICK_ROOM = 48;

/**
 * Draw rows {name, value, low, high, colour} in an element, and redraw them when its width changes.
 * Options: `text(value)`, the possible `steps` between ticks, a `label` for screen readers, and the
 * `range` of the axis.
 */
export function drawIntervals(host, rows, options) {
  const draw = () => host.clientWidth && host.replaceChildren(rows.length ? drawing(rows, Math.min(host.clientWidth, WIDEST), options) : "");
  observers.get(host)?.disconnect();
  const observer = new ResizeObserver(draw);
  observers.set(host, observer);
  observer.observe(host);
}

const observers = new WeakMap();

function drawing(rows, width, { text, steps, label, range = null }) {
  const left = Math.min(240, 0.42 * width);
  const [low, high] = range ?? [Math.min(...rows.map((each) => each.low)), Math.max(...rows.map((each) => each.high))];
  const x = (value) => left + ((value - low) / (high - low || 1)) * (width - left - MARGIN);
  const height = ROW * rows.length + FOOT;
  const step = steps.find((each) => (high - low) / each <= (width - left) / TICK_ROOM) ?? 2 * steps.at(-1);
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) {
    ticks.push(svg("line", { x1: x(value), x2: x(value), y1: 4, y2: height - 28 }));
    ticks.push(svg("text", { class: "soft", x: x(value), y: height - 12, "text-anchor": "middle" }, text(value)));
  }
  const best = rows[0];
  const summary = `${label}: ${best.name} is first of ${rows.length} with ${text(best.value)}; see the table for all values`;
  const attributes = { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": summary };
  return svg("svg", attributes, ticks, rows.map((each, number) => row(each, ROW * number + 16, x, left, text)));
}

function row({ name, value, low, high, colour }, y, x, left, text) {
  const bar = (from, to, top, bottom) => svg("line", { class: "error-bar", x1: x(from), x2: x(to), y1: top, y2: bottom });
  const group = svg(
    "g",
    {},
    svg("title", {}, `${name}: ${text(value)} (${text(low)} to ${text(high)})`),
    svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, shortened(name, left - 12)),
    bar(low, high, y, y), bar(low, low, y - 4, y + 4), bar(high, high, y - 4, y + 4),
    svg("circle", { cx: x(value), cy: y, r: 4.5 }),
  );
  if (colour) group.style.setProperty("--accent", colour);
  return group;
}

/** Name, or as much of its end as fits into `room` pixels. */
function shortened(name, room) {
  if (textWidth(name) <= room) return name;
  let start = 1;
  while (start < name.length && textWidth(`…${name.slice(start)}`) > room) start += 1;
  return `…${name.slice(start)}`;
}
