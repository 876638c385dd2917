// Links and number formats shared by the pages for runs, games, tournaments and studies.

import { byId, drawsSoon, el, paramsText, percent, replaceContent, showError } from "./dom.js";
import { explained } from "./help.js";

const address = (page, params) => `/${page}#${paramsText(params)}`;

/** Link to a page with parameters in its URL; a list repeats its parameter. */
export const linkTo = (page, params, text, attributes = {}) =>
  el("a", { href: address(page, params), ...attributes }, text);

export const goTo = (page, params) => location.assign(address(page, params));

/** All values of a repeated parameter in the URL fragment. */
export const hashAll = (key) => new URLSearchParams(location.hash.slice(1)).getAll(key);

export const count = (number) => number.toLocaleString("en");

/** State of a class tournament: in progress, finished or stopped. */
export const stateOfTournament = ({ is_running: isRunning, stored_games: games, planned_games: planned }) =>
  isRunning ? "in progress" : games >= planned ? "finished" : "stopped";

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

/** Date and time of seconds since 1970, in the reader's time zone; empty for 0. */
export function dateOf(seconds) {
  if (!seconds) return "";
  const date = new Date(1000 * seconds);
  const text = date.toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
  return el("time", { datetime: date.toISOString() }, text);
}

/** Share with a 95 % interval, as text. */
export const interval = (value, low, high) => `${percent(value)} (${percent(low)} to ${percent(high)})`;

/** Value of a setting as text. */
export const setting = (value) =>
  value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);

/** Show a name in the page heading and in the browser tab's title. */
export function showTitle(name) {
  document.querySelector("h1").textContent = name;
  document.title = `${name} · zerolab`;
}

/** Name of an opponent, without its options unless they distinguish it from another opponent. */
export function withoutOptions(name, opponents) {
  const headOf = (each) => each.split("?")[0];
  return opponents.filter((each) => headOf(each) === headOf(name)).length > 1 ? name : headOf(name);
}

const MOST_WAIT = 30_000; // milliseconds until a request is repeated

const shownFacts = new WeakMap();

/**
 * Show facts unless they are already shown. Each is [name, value], followed by true for a main fact.
 * Names that are in the glossary get a tooltip.
 */
export function showFacts(host, facts) {
  const termOf = (name) => explained(name, name.startsWith("Score against") ? "points per game" : "");
  const items = facts.map(([name, value, isMain = false]) =>
    el("div", { class: isMain ? "headline" : null }, el("dt", {}, termOf(name)), el("dd", {}, value)));
  const text = items.map((each) => each.textContent).join();
  if (shownFacts.get(host) === text) return;
  shownFacts.set(host, text);
  replaceContent(host, ...items);
}

/** Status of a run as coloured text. */
export function statusOf(run) {
  const colours = { running: "good", damaged: "bad", finished: "", stopped: "soft" };
  return el("span", { class: colours[run.status] || null }, run.problem ? `${run.status}: ${run.problem}` : run.status);
}

const VERDICT_CLASSES = { holds: "good", "does not hold": "bad" };

/** CSS class for the colour of a verdict. */
export const verdictClass = (verdict) => VERDICT_CLASSES[verdict] ?? "soft";

/** Text with numbers rounded to three significant digits. */
export const rounded = (text) => text.replace(/-?\d+\.\d+(e-?\d+)?/g, (number) => String(Number(Number(number).toPrecision(3))));

/** P-value as text, such as "p = 0.012" or "p < 0.001"; empty if there is none. */
export function pText(p) {
  if (!p) return "";
  return Number(p) < 0.001 ? "p < 0.001" : `p = ${rounded(p)}`;
}

/**
 * Show data now and whenever it changes. The data is reloaded every few seconds while the page is
 * visible, but never redrawn while a pointer is down. Errors from other work stay until that work
 * clears them. Returns a function that reloads and shows the data immediately.
 */
export function keepShowing(load, show, seconds) {
  let [data, shown, reported, latest, begun] = [null, "", null, 0, 0]; // begun: time of the pending request, or 0
  const drawSoon = drawsSoon(() => show(data));
  const refresh = async () => {
    const number = (latest += 1);
    begun = performance.now();
    try {
      const loaded = await load();
      if (number !== latest) return; // the page has asked for something else
      data = loaded;
      if (byId("error").textContent === reported) showError(byId("error"), "");
      reported = null;
      const text = JSON.stringify(data);
      if (text !== shown) drawSoon();
      shown = text;
    } catch (error) {
      if (number !== latest) return;
      showError(byId("error"), error);
      reported = error.message;
    } finally {
      if (number === latest) begun = 0;
    }
  };
  refresh();
  const isPending = () => begun > 0 && performance.now() - begun < MOST_WAIT;
  setInterval(() => document.visibilityState === "visible" && !isPending() && refresh(), 1000 * seconds);
  return () => {
    shown = "";
    refresh();
  };
}
