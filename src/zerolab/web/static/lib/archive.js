// Shared parts of the pages about runs, games, tournaments and studies: links, numbers, curves.

import { lineChart } from "./chart.js";
import { byId, el, percent, showError } from "./dom.js";

const address = (page, params) => {
  const given = Object.entries(params).flatMap(([key, value]) =>
    [value].flat().map((each) => [key, each]),
  );
  const text = new URLSearchParams(given.filter(([, value]) => value !== "" && value !== undefined && value !== null));
  return `/${page}#${text}`;
};

/** A link to a page, with parameters in its address; a list repeats its parameter. */
export const linkTo = (page, params, text, attributes = {}) =>
  el("a", { href: address(page, params), ...attributes }, text);

export const goTo = (page, params) => location.assign(address(page, params));

/** All values of a parameter in the address after #. */
export const hashAll = (key) => new URLSearchParams(location.hash.slice(1)).getAll(key);

export const count = (number) => number.toLocaleString("en");

/** Elo with its sign; empty if unknown. */
export function elo(value) {
  if (value === null || value === undefined) return "";
  const whole = Math.round(value);
  return whole === 0 ? "0" : `${whole < 0 ? "−" : "+"}${Math.abs(whole)}`;
}

/** A duration in at most two units. */
export function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${count(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

/** A share with its 95 % interval. */
export const interval = (value, low, high) => `${percent(value)} (${percent(low)} to ${percent(high)})`;

/** A setting's value as text. */
export const setting = (value) =>
  value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);

/** The state of a run, in a colour and in words. */
export function statusOf(run) {
  const colours = { running: "good", damaged: "bad", finished: "", stopped: "soft" };
  return el("span", { class: colours[run.status] || null }, run.problem ? `${run.status}: ${run.problem}` : run.status);
}

const AXES = { iterations: "iteration", games: "games of self-play", hours: "hours of training" };

/** Draw the panels of one or several runs, {name: panels}; panels with the same key are merged. */
export function drawPanels(host, byRun, x = "iterations") {
  const names = Object.keys(byRun);
  const panels = new Map();
  for (const name of names) {
    for (const panel of byRun[name]) {
      const known = panels.get(panel.key) ?? { ...panel, series: [] };
      const named = panel.series.map((each) => ({
        ...each,
        name: names.length > 1 ? [name, panel.series.length > 1 ? each.name : ""].filter(Boolean).join(", ") : each.name,
      }));
      panels.set(panel.key, { ...known, series: [...known.series, ...named] });
    }
  }
  const drawn = [...panels.values()].map((panel) => {
    const place = el("div");
    lineChart(place, panel.series, { xLabel: AXES[x], yLabel: panel.unit });
    return el("section", { class: "panel", "aria-label": panel.title }, el("h3", {}, panel.title), place);
  });
  const nothing = el("p", { class: "soft" }, "No stage is finished yet: the first curves come with the first iteration.");
  host.replaceChildren(...(drawn.length ? drawn : [nothing]));
}

/**
 * Show data now, and again whenever they have changed; they are loaded every few seconds while the
 * page is visible. Returns a function that loads and shows them at once.
 */
export function keepShowing(load, show, seconds) {
  let shown = "";
  const look = async () => {
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
  look();
  setInterval(() => document.visibilityState === "visible" && look(), 1000 * seconds);
  return () => {
    shown = "";
    look();
  };
}
