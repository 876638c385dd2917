// Elements, URL parameters, announcements to screen readers, and choices that the browser remembers.

import { explained } from "./help.js";

/**
 * Create an element. Attributes that begin with "on" are event listeners. Attributes that are
 * false, null or undefined are omitted. Children are elements or text.
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

const SVG = "http://www.w3.org/2000/svg";

/** Create an SVG element, like `el`. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Replace the children of an element and move the focus to the new child with the same name. */
export function replaceContent(host, ...children) {
  const focused = host.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  host.replaceChildren(...children);
  if (focused === null) return;
  const candidates = [...host.querySelectorAll("button, a, input, [tabindex]")];
  candidates.find((each) => nameOf(each) === focused && each.checkVisibility())?.focus({ preventScroll: true });
}

/** Replace the children of an element unless they are the same elements. */
export function keepContent(host, ...wanted) {
  const isSame = wanted.length === host.children.length && wanted.every((each, index) => each === host.children[index]);
  if (!isSame) host.replaceChildren(...wanted);
}

const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent;

/**
 * Return a function that schedules drawing, at most once every `pause` milliseconds. It never draws
 * while a pointer is down, because a click is lost if its element is replaced.
 */
export function drawsSoon(draw, pause = 150) {
  let [isDown, isWanted, timer] = [false, false, null];
  const drawOnce = () => {
    timer = null;
    if (!isWanted || isDown) return;
    isWanted = false;
    draw();
    timer = setTimeout(drawOnce, pause);
  };
  const release = () => {
    isDown = false;
    timer ??= setTimeout(drawOnce); // after the click event, which is still to come
  };
  addEventListener("pointerdown", () => (isDown = true), true);
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, release, true);
  return () => {
    isWanted = true;
    timer ??= setTimeout(drawOnce);
  };
}

/** Announce text to screen readers, even if it is the same as before. */
export function announce(text) {
  const region = byId("announcements");
  region.textContent = region.textContent === text ? `${text} ` : text;
}

/** Show and announce an error; an empty message hides it. */
export function showError(element, error) {
  const message = error instanceof Error ? error.message : error;
  element.textContent = message;
  element.hidden = !message;
  if (message) announce(message);
}

/**
 * Set an error message that describes valid names; the browser's own message says only that the name
 * does not match a pattern.
 */
export function checkFolderName(field) {
  field.setCustomValidity("");
  if (field.validity.patternMismatch) {
    field.setCustomValidity(
      `"${field.value}": expected letters, digits, dots, hyphens and underscores, beginning with a letter or digit`,
    );
  }
}

/** Run `work` and show any error in the page's error element, unless the work was aborted. */
export async function guarded(work) {
  showError(byId("error"), "");
  try {
    await work();
  } catch (error) {
    if (error.name !== "AbortError") showError(byId("error"), error);
  }
}

const MOST_COLUMNS = 4; // that fit on a phone

/**
 * Table with rows of cells, which are text or elements. Headings that are in the glossary get a
 * tooltip. On a phone, unless `keepsColumns` is true, each row of a wide table becomes a list of its
 * values: one below the other or, if `isDense` is true, side by side.
 */
export function table(headings, rows, { numbers = [], caption = "", isDense = false, keepsColumns = false } = {}) {
  const kind = (column) => (numbers.includes(column) ? "number" : null);
  const names = headings.map((each) => each.textContent ?? each);
  const head = headings.map((text, column) => el("th", { scope: "col", role: "columnheader", class: kind(column) }, explained(text)));
  const isListed = !keepsColumns && headings.length > MOST_COLUMNS;
  const terms = isListed ? headings.map((text) => explained(text)).filter((each) => each instanceof HTMLButtonElement) : [];
  const cellOf = (cell, column) =>
    el("td", { role: "cell", class: kind(column), "data-heading": names[column] }, cell ?? "");
  // Roles are explicit, because a table displayed as a list loses its implicit roles.
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || "table" },
    terms.length ? el("p", { class: "terms soft" }, "Terms:", terms) : null,
    el(
      "table",
      { role: "table", class: isListed ? `listed${isDense ? " dense" : ""}` : null },
      caption ? el("caption", { class: "unseen" }, caption) : null,
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)),
      el("tbody", { role: "rowgroup" }, rows.map((cells) => el("tr", { role: "row" }, cells.map(cellOf)))),
    ),
  );
}

/** Parameters in the URL fragment, as an object of strings. */
export const hashParams = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

/** Parameters as in a URL, without empty ones; a list repeats its parameter. */
export function paramsText(params) {
  const pairs = Object.entries(params).flatMap(([key, value]) => [value].flat().map((each) => [key, each]));
  return new URLSearchParams(pairs.filter(([, value]) => value !== "" && value !== undefined && value !== null)).toString();
}

/** Set the parameters in the URL fragment without adding a history entry; see `paramsText`. */
export function setHashParams(params) {
  const text = paramsText(params);
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
export const signed = (value, digits = 2) => (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(digits);

/**
 * Restore a checkbox or menu from the browser's storage, and store it whenever it changes. Controls
 * with the same name share their value across pages.
 */
export function keepChoice(control, name, onChange = () => {}) {
  const key = `zerolab-${name}`;
  const isCheckbox = control.type === "checkbox";
  const stored = localStorage.getItem(key);
  if (stored !== null && isCheckbox) control.checked = stored === "true";
  if (stored !== null && !isCheckbox && [...control.options].some((each) => each.value === stored)) control.value = stored;
  control.addEventListener("change", () => {
    localStorage.setItem(key, isCheckbox ? String(control.checked) : control.value);
    onChange();
  });
}
