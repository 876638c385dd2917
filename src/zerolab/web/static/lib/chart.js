// Line charts: axes in screen pixels, a cursor for pointer and keyboard, a legend that hides series.

import { colourOf, curve, isNumber, nearest, shown, smoothed } from "./curves.js";
import { el, svg } from "./dom.js";
import { format, linearScale, logScale, textWidth, tickLabels } from "./scales.js";

const [TOP, RIGHT, BOTTOM, HEIGHT] = [26, 16, 40, 240];
const LABEL_ROOM = 18; // pixels between two labels on the x axis
const ROW_ROOM = 36; // pixels between two labels on the y axis
const MOST_READ = 12; // maximum number of series in the readout
const charts = new WeakMap();

/**
 * Draw series {name, points: [[x, y], ...], band: [[x, low, high], ...]} in an element, and redraw
 * them when its width changes. `y` can be null. `band`, `colour`, `dash` (the number of a pattern) and
 * `parts` are optional; parts such as a run and a quantity get one legend entry each, instead of one
 * for every pair. Options: a `title` for screen readers, `xLabel`, `yLabel`, the `range` of y, an x to
 * `mark`, `isLog`, a `smoothing` weight below 1, and `onPick(x)`, which is called with the x nearest to
 * a click or, on Enter, the x of the cursor.
 */
export function lineChart(host, series, options = {}) {
  if (!charts.has(host)) charts.set(host, new Chart(host));
  charts.get(host).update(series, options);
}

class Chart {
  constructor(host) {
    this.host = host;
    this.hidden = new Set(); // names in the legend
    this.at = null; // x of the cursor
    this.isReading = false;
    host.classList.add("chart");
    this.readout = el("div", { class: "readout", "aria-hidden": "true", hidden: true });
    this.plot = el("div", {
      class: "plot", role: "slider", tabindex: 0,
      onpointermove: (event) => this.#read(this.#nearestX(event)),
      onpointerdown: (event) => this.#read(this.#nearestX(event)),
      onpointerleave: () => this.#stopReading(),
      onclick: (event) => this.#pick(this.#nearestX(event)),
      onfocus: () => this.plot.matches(":focus-visible") && this.#read(this.at ?? this.#nearestTo(this.options.mark ?? this.xs.at(-1))),
      onblur: () => this.#stopReading(),
      onkeydown: (event) => this.#press(event),
    });
    this.legend = el("div", { class: "legend", role: "group", "aria-label": "Series" });
    this.empty = el("p", { class: "soft" }, "Nothing measured yet.");
    new ResizeObserver(() => this.#draw()).observe(host);
  }

  update(series, options) {
    this.options = { xLabel: "", yLabel: "", range: null, mark: null, isLog: false, smoothing: 0, ...options };
    this.series = series.map((each) => ({ ...each, colour: each.colour ?? colourOf(each.name) }));
    this.width = 0;
    if (!this.series.some((each) => shown(each.points).length)) {
      if (!this.empty.isConnected) this.host.replaceChildren(this.empty);
      return;
    }
    if (!this.plot.isConnected) this.host.replaceChildren(this.plot, this.readout, this.legend);
    this.plot.setAttribute("aria-label", `${options.title ?? options.yLabel ?? "Chart"}, over ${options.xLabel || "x"}`);
    this.#draw();
    this.#drawLegend();
  }

  /** Draw everything, unless the host is not laid out yet or its width is unchanged. */
  #draw() {
    const width = Math.floor(this.host.clientWidth);
    if (!width || width === this.width || !this.plot.isConnected) return;
    this.width = width;
    const { isLog, smoothing } = this.options;
    this.visible = this.series.filter((each) => !partsOf(each).some((part) => this.hidden.has(part.name)));
    this.xs = [...new Set(this.visible.flatMap((each) => shown(each.points, isLog).map(([x]) => x)))].sort((a, b) => a - b);
    if (!this.xs.includes(this.at)) this.at = null;
    this.#setScales();
    this.overlay = svg("g", {});
    const drawing = svg(
      "svg",
      { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" },
      this.#axes(), this.#mark(),
      this.visible.map((each) => curve(each, this.x, this.y, { isLog, smoothing, width: width - this.left - RIGHT })),
      this.overlay,
    );
    this.plot.replaceChildren(drawing);
    if (this.at === null) this.#stopReading();
    if (this.isReading) this.#read(this.at);
    else this.#say(this.xs.at(-1));
  }

  #setScales() {
    const { isLog, range } = this.options;
    const values = this.visible.flatMap((each) => [
      ...shown(each.points, isLog).map(([, y]) => y),
      ...(each.band ?? []).flatMap(([, low, high]) => [low, high].filter((value) => !isLog || value > 0)),
    ]);
    const ends = range ?? padded(extent(values, isLog ? [1, 10] : [0, 1]), isLog);
    this.y = (isLog ? logScale : linearScale)(ends, [HEIGHT - BOTTOM, TOP]);
    this.yTicks = this.y.ticks(Math.floor((HEIGHT - TOP - BOTTOM) / ROW_ROOM) + 1);
    this.yLabels = tickLabels(this.yTicks);
    this.left = Math.ceil(Math.max(24, ...this.yLabels.map(textWidth))) + 10;
    const isWhole = this.xs.every(Number.isInteger);
    this.x = linearScale(extent(this.xs, [0, 1]), [this.left, this.width - RIGHT], isWhole);
    this.xTicks = this.#xTicks();
  }

  /** Ticks on the x axis: as many as there is room for, with their labels. */
  #xTicks() {
    for (let most = 10; most > 1; most -= 1) {
      const ticks = this.x.ticks(most);
      const room = (this.width - this.left - RIGHT) / Math.max(1, ticks.length - 1);
      if (Math.max(...tickLabels(ticks).map(textWidth)) + LABEL_ROOM <= room) return ticks;
    }
    return this.x.ticks(1);
  }

  #axes() {
    const [end, floor] = [this.width - RIGHT, HEIGHT - BOTTOM];
    const { xLabel, yLabel, isLog } = this.options;
    const rows = this.yTicks.map((value, number) => [
      svg("line", { class: "axis", x1: this.left, x2: end, y1: this.y(value), y2: this.y(value) }),
      svg("text", { x: this.left - 6, y: this.y(value) + 4, "text-anchor": "end" }, this.yLabels[number]),
    ]);
    const columns = tickLabels(this.xTicks).map((label, number) =>
      svg("text", { x: this.x(this.xTicks[number]), y: floor + 16, "text-anchor": "middle" }, label),
    );
    const titles = [
      svg("text", { class: "title", x: 0, y: 12 }, `${yLabel}${isLog ? ", log scale" : ""}`),
      svg("text", { class: "title", x: end, y: HEIGHT - 6, "text-anchor": "end" }, xLabel),
    ];
    return svg("g", {}, rows, columns, titles);
  }

  #mark() {
    const { mark } = this.options;
    if (mark === null || !(this.xs[0] <= mark && mark <= this.xs.at(-1))) return null; // also if there are no xs
    return svg("line", { class: "guide", x1: this.x(mark), x2: this.x(mark), y1: TOP, y2: HEIGHT - BOTTOM });
  }

  #drawLegend() {
    const lists = this.series.map(partsOf);
    const inOrder = [0, 1].flatMap((place) => lists.flatMap((each) => each[place] ?? []));
    const parts = new Map(inOrder.map((part) => [part.name, part]));
    this.legend.hidden = parts.size < 2;
    const focused = [...this.legend.children].indexOf(document.activeElement);
    const buttons = [...parts.values()].map((part) => {
      const isVisible = !this.hidden.has(part.name);
      const onclick = () => this.#toggle(part.name);
      return el("button", { type: "button", "aria-pressed": String(isVisible), onclick }, swatchOf(part), part.name);
    });
    this.legend.replaceChildren(...buttons);
    this.legend.children[focused]?.focus();
  }

  #toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.width = 0;
    this.#draw();
    this.#drawLegend();
  }

  /** Measured x nearest to a pointer, or undefined if there is none. */
  #nearestX(event) {
    return this.#nearestTo(this.x.inverse(event.clientX - this.plot.getBoundingClientRect().left));
  }

  #nearestTo(at) {
    return this.xs.reduce((best, each) => (Math.abs(each - at) < Math.abs(best - at) ? each : best), this.xs[0]);
  }

  #pick(x) {
    if (isNumber(x)) this.options.onPick?.(x);
  }

  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const place = Math.max(0, this.xs.indexOf(this.at ?? this.xs.at(-1)));
    const page = Math.max(1, Math.round(this.xs.length / 10));
    const places = {
      ArrowLeft: place - 1, ArrowDown: place - 1, ArrowRight: place + 1, ArrowUp: place + 1,
      PageDown: place - page, PageUp: place + page, Home: 0, End: this.xs.length - 1,
    };
    if (event.key === "Escape") this.#stopReading();
    else if (event.key === "Enter" && this.options.onPick) this.#pick(this.at);
    else if (event.key in places) this.#read(this.xs[Math.min(Math.max(places[event.key], 0), this.xs.length - 1)]);
    else return;
    event.preventDefault();
    event.stopPropagation(); // pages use the same keys
  }

  /** Move the cursor to an x, and show the values there. */
  #read(x) {
    if (!isNumber(x)) return;
    this.at = x;
    this.isReading = true;
    const values = this.#valuesAt(x);
    const place = this.x(x);
    this.overlay.replaceChildren(
      svg("line", { class: "cursor", x1: place, x2: place, y1: TOP, y2: HEIGHT - BOTTOM }),
      ...values.map((each) => svg("circle", { class: "dot", cx: this.x(each.x), cy: this.y(each.y), r: 4.5, fill: each.series.colour })),
    );
    const lines = values.slice(0, MOST_READ).map((each) => el("div", {}, el("span", {}, swatchOf(each.series), ` ${each.series.name}`), each.text.replace("measured ", "")));
    const more = values.length - MOST_READ;
    this.readout.replaceChildren(
      el("strong", {}, `${this.options.xLabel} ${format(x)}`.trim()), ...lines, more > 0 ? `and ${more} more` : "",
    );
    this.readout.hidden = false;
    const room = this.host.clientWidth - this.readout.offsetWidth;
    const left = place < this.width / 2 ? place + 12 : place - this.readout.offsetWidth - 12;
    this.readout.style.transform = `translate(${Math.max(0, Math.min(left, room))}px, ${TOP}px)`;
    this.#say(x);
  }

  #stopReading() {
    this.isReading = false;
    this.readout.hidden = true;
    this.overlay?.replaceChildren();
  }

  /** Values of the visible series at x or, for a series without a value there, at its nearest x. */
  #valuesAt(x) {
    const { isLog, smoothing } = this.options;
    return this.visible.flatMap((series) => {
      const raw = nearest(shown(series.points, isLog), x);
      if (!raw) return [];
      const y = smoothing ? smoothed(series.points, smoothing).find(([at]) => at === raw[0])[1] : raw[1];
      const where = raw[0] === x ? "" : ` at ${format(raw[0])}`;
      const text = smoothing ? `${format(y)} (measured ${format(raw[1])})${where}` : `${format(y)}${where}`;
      return [{ series, x: raw[0], y, text }];
    });
  }

  /** Set the position of the cursor and the values there for screen readers. */
  #say(x) {
    const attributes = { "aria-valuemin": this.xs[0] ?? 0, "aria-valuemax": this.xs.at(-1) ?? 0, "aria-valuenow": x ?? 0 };
    for (const [name, value] of Object.entries(attributes)) this.plot.setAttribute(name, String(value));
    const values = isNumber(x) ? this.#valuesAt(x).map((each) => `${each.series.name} ${each.text}`) : [];
    const place = isNumber(x) ? `${this.options.xLabel} ${format(x)}`.trim() : "";
    this.plot.setAttribute("aria-valuetext", values.length ? `${place}: ${values.join("; ")}` : "All series are hidden.");
  }
}

/** Entries of a series in the legend: itself, or its parts. */
const partsOf = (series) => series.parts ?? [series];

/** Sample of a line, for legends and lists. */
export function swatchOf({ colour, dash = 0 }) {
  const swatch = el("span", { class: `swatch dash-${dash}`, "aria-hidden": "true" });
  swatch.style.setProperty("--series", colour);
  return swatch;
}

function extent(values, fallback) {
  if (!values.length) return fallback;
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

function padded([low, high], isLog) {
  if (isLog) return [low / 1.1, high * 1.1];
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - margin, high + margin];
}
