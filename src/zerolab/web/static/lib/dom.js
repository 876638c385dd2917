// Elements, addresses, and announcements to screen readers.

/**
 * Make an element. Attributes that begin with "on" are listeners; others are set as given, except
 * that false and null omit one. Children are elements or text.
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

const SVG = "http://www.w3.org/2000/svg";

/** Make an SVG element, like `el`. */
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

/** Replace the children of an element; the focus moves to the new child of the same name. */
export function replaceContent(host, ...children) {
  const focused = host.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  host.replaceChildren(...children);
  if (focused === null) return;
  const candidates = [...host.querySelectorAll("button, a, [tabindex]")];
  candidates.find((each) => nameOf(each) === focused)?.focus({ preventScroll: true });
}

const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent;

/**
 * Return a function that draws soon: at most once in `pause` milliseconds, and never while a pointer
 * is down, since a click is lost if the element on which it began disappears.
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
    timer ??= setTimeout(drawOnce); // after the click, which follows
  };
  addEventListener("pointerdown", () => (isDown = true), true);
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, release, true);
  return () => {
    isWanted = true;
    timer ??= setTimeout(drawOnce);
  };
}

/** Announce a text to screen readers, even if it equals the last one. */
export function announce(text) {
  const place = byId("announcements");
  place.textContent = place.textContent === text ? `${text} ` : text;
}

/** Show and announce an error; an empty message hides it. */
export function showError(place, error) {
  const message = error instanceof Error ? error.message : error;
  place.textContent = message;
  place.hidden = !message;
  if (message) announce(message);
}

/** A table of rows of cells; cells are text or elements. */
export function table(headings, rows, { numbers = [], caption = "" } = {}) {
  const kind = (column) => (numbers.includes(column) ? "number" : null);
  const head = headings.map((text, column) => el("th", { scope: "col", class: kind(column) }, text));
  const body = rows.map((cells) =>
    el("tr", {}, cells.map((cell, column) => el("td", { class: kind(column) }, cell ?? ""))),
  );
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || "table" },
    el(
      "table",
      {},
      caption ? el("caption", { class: "unseen" }, caption) : null,
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, body),
    ),
  );
}

/** The parameters in the address after #, as an object of strings. */
export const hashParams = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

/** Put parameters into the address, without a history entry; empty ones are left out. */
export function setHashParams(params) {
  const given = Object.entries(params).filter(([, value]) => value !== "" && value !== undefined);
  const text = new URLSearchParams(given).toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
export const signed = (value, digits = 2) => (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(digits);
