// Links, number formats and curves shared by the pages about runs, games, tournaments and studies.

import { lineChart } from "./chart.js";
import { byId, el, percent, showError } from "./dom.js";

const address = (page, params) => {
  const pairs = Object.entries(params).flatMap(([key, value]) =>
    [value].flat().map((each) => [key, each]),
  );
  const text = new URLSearchParams(pairs.filter(([, value]) => value !== "" && value !== undefined && value !== null));
  return `/${page}#${text}`;
};

/** Link to a page with parameters in its URL; a list repeats its parameter. */
export const linkTo = (page, params, text, attributes = {}) =>
  el("a", { href: address(page, params), ...attributes }, text);

export const goTo = (page, params) => location.assign(address(page, params));

/** All values of a repeated parameter in the URL fragment. */
export const hashAll = (key) => new URLSearchParams(location.hash.slice(1)).getAll(key);

export const count = (number) => number.toLocaleString("en");

/** Elo with its sign, or an empty string if unknown. */
export function elo(value) {
  if (value === null || value === undefined) return "";
  const whole = Math.round(value);
  return whole === 0 ? "0" : `${whole < 0 ? "−" : "+"}${Math.abs(whole)}`;
}

/** Duration in at most two units. */
export function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${count(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

/** Share with a 95 % interval, as text. */
export const interval = (value, low, high) => `${percent(value)} (${percent(low)} to ${percent(high)})`;

/** Value of a setting as text. */
export const setting = (value) =>
  value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);

/** Status of a run as coloured text. */
export function statusOf(run) {
  const colours = { running: "good", damaged: "bad", finished: "", stopped: "soft" };
  return el("span", { class: colours[run.status] || null }, run.problem ? `${run.status}: ${run.problem}` : run.status);
}

const AXES = { iterations: "iteration", games: "self-play games", hours: "training hours" };

/** Draw `byRun`, which maps run names to panels, and merge panels with the same key. */
export function drawPanels(host, byRun, x = "iterations") {
  const names = Object.keys(byRun);
  const panels = new Map();
  for (const name of names) {
    for (const panel of byRun[name]) {
      const merged = panels.get(panel.key) ?? { ...panel, series: [] };
      const named = panel.series.map((each) => ({
        ...each,
        name: names.length > 1 ? [name, panel.series.length > 1 ? each.name : ""].filter(Boolean).join(", ") : each.name,
      }));
      panels.set(panel.key, { ...merged, series: [...merged.series, ...named] });
    }
  }
  const sections = [...panels.values()].map((panel) => {
    const chart = el("div");
    lineChart(chart, panel.series, { xLabel: AXES[x], yLabel: panel.unit });
    return el("section", { class: "panel", "aria-label": panel.title }, el("h3", {}, panel.title), chart);
  });
  const placeholder = el("p", { class: "soft" }, "Curves will appear when the first stages are finished.");
  host.replaceChildren(...(sections.length ? sections : [placeholder]));
}

/**
 * Show data now and whenever it changes. The data is reloaded every few seconds while the page is
 * visible. Returns a function that reloads and shows it immediately.
 */
export function keepShowing(load, show, seconds) {
  let shown = "";
  const refresh = async () => {
    try {
      const data = await load();
      showError(byId("error"), "");
      const text = JSON.stringify(data);
      if (text !== shown) show(data);
      shown = text;
    } catch (error) {
      showError(byId("error"), error);
    }
  };
  refresh();
  setInterval(() => document.visibilityState === "visible" && refresh(), 1000 * seconds);
  return () => {
    shown = "";
    refresh();
  };
}
