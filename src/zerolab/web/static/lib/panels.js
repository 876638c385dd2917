// Charts of runs: one card per quantity, each with a log button; all have the same smoothing.

import { lineChart } from "./chart.js";
import { colourOfRun } from "./curves.js";
import { byId, el, hashParams, keepContent } from "./dom.js";
import { explained } from "./help.js";

const DASHES = 4; // patterns that are easy to distinguish
const AXES = { iterations: "iteration", games: "self-play games", hours: "training hours" };

/**
 * Cards with charts in an element. The page's `axis` and `smoothing` fields control what they show;
 * `onAxis()` is called after the axis has changed, because the page must then load other curves.
 */
export class Panels {
  constructor(host, onAxis) {
    this.host = host;
    this.cards = new Map();
    this.panels = [];
    byId("axis").value = hashParams().x ?? "iterations";
    byId("axis").addEventListener("change", onAxis);
    byId("smoothing").addEventListener("input", () => this.#draw());
  }

  /** Horizontal axis: iterations, games or hours. */
  get x() {
    return byId("axis").value;
  }

  /** Show `byRun`, which maps run names to panels, and merge panels with the same key. */
  show(byRun) {
    this.panels = merged(byRun);
    const keys = this.panels.map((each) => each.key);
    for (const key of this.cards.keys()) if (!keys.includes(key)) this.cards.delete(key);
    for (const panel of this.panels) if (!this.cards.has(panel.key)) this.cards.set(panel.key, this.#newCard(panel));
    const sections = this.panels.map((each) => this.cards.get(each.key).section);
    const placeholder = el("p", { class: "soft" }, "Curves will appear once the first stages have finished.");
    keepContent(this.host, ...(sections.length ? sections : [placeholder]));
    this.#draw();
  }

  #newCard(panel) {
    const card = { chart: el("div"), isLog: false };
    const flip = () => {
      card.isLog = !card.isLog;
      this.#draw();
    };
    card.button = el("button", { type: "button", class: "small", "aria-label": `Log scale for ${panel.title}`, onclick: flip }, "log");
    const head = el("div", { class: "chart-head" }, el("h3", {}, explained(panel.title)), card.button);
    card.section = el("section", { class: "panel", "aria-label": panel.title }, head, card.chart);
    return card;
  }

  #draw() {
    const smoothing = Number(byId("smoothing").value);
    byId("smoothing-value").textContent = smoothing.toFixed(2);
    for (const { key, title, unit, series } of this.panels) {
      const card = this.cards.get(key);
      const values = series.flatMap((each) => each.points.map(([, y]) => y)).filter((y) => y !== null);
      card.button.disabled = !values.some((y) => y > 0);
      card.button.setAttribute("aria-pressed", String(card.isLog));
      const { isLog } = card;
      lineChart(card.chart, series, { title, xLabel: AXES[this.x], yLabel: unit, isLog, smoothing });
    }
  }
}

/** Panels for one or more runs. Several runs have one colour each, and dashes tell their series apart. */
function merged(byRun) {
  const runs = Object.keys(byRun);
  const panels = new Map();
  for (const [run, title] of runs.map((each) => [each, shortName(each, runs)])) {
    for (const panel of byRun[run]) {
      if (!panels.has(panel.key)) panels.set(panel.key, { ...panel, series: [] });
      const { series } = panels.get(panel.key);
      series.push(...(runs.length > 1 ? ofRun(panel.series, title, colourOfRun(run)) : panel.series));
    }
  }
  return [...panels.values()];
}

function ofRun(series, run, colour) {
  if (series.length === 1) return [{ ...series[0], name: run, colour }];
  return series.map((each, number) => {
    const dash = number % DASHES;
    const parts = [{ name: run, colour }, { name: each.name, colour: "var(--ink)", dash }];
    return { ...each, name: `${run}, ${each.name}`, colour, dash, parts };
  });
}

/** Name of a run without the folders that all runs share. */
export function shortName(run, runs) {
  const folder = run.slice(0, run.lastIndexOf("/") + 1);
  return runs.every((each) => each.startsWith(folder)) ? run.slice(folder.length) : run;
}
