// Terms with a tooltip: one sentence of the glossary, for mouse, touch and keyboard.

import { announce, el } from "./dom.js";

const HOVER_MILLISECONDS = 250;
const entries = await load();
const tip = el("div", { class: "tip", popover: "auto", id: "tip" });
let opener = null;
let timer = null;

/** Entries of the glossary by their names in lower case; none if the file cannot be loaded. */
async function load() {
  try {
    const response = await fetch("/static/glossary.json");
    const all = response.ok ? await response.json() : [];
    return new Map(all.flatMap((each) => [each.term, ...each.also, ...each.headings].map((name) => [name.toLowerCase(), each])));
  } catch {
    return new Map();
  }
}

/** Entry of the glossary with a name, or undefined. */
export const entryOf = (name) => entries.get(name.toLowerCase());

/** All entries of the glossary, in alphabetical order. */
export const allEntries = () => [...new Set(entries.values())];

/** Anchor of a term on the page of the glossary. */
export const anchorOf = (term) => term.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");

/** Button with a tooltip for a text that the glossary has, or whose `name` it has; else the text. */
export function explained(text, name = text) {
  if (typeof text !== "string" || !entryOf(name)) return text;
  return el("button", { type: "button", class: "term", "data-term": name, "aria-haspopup": "true" }, text);
}

function show(button) {
  const entry = entryOf(button.dataset.term);
  if (!entry || opener === button) return;
  opener = button;
  const more = el("a", { href: `/glossary#${anchorOf(entry.term)}` }, "More in the glossary");
  tip.replaceChildren(el("p", {}, el("strong", {}, entry.term), `: ${entry.text}`), more);
  button.after(tip);
  tip.showPopover();
  place(button);
  announce(`${entry.term}: ${entry.text}`);
}

/** Put the tooltip below the term, or above it if there is no room. */
function place(button) {
  const box = button.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const below = box.bottom + 4;
  tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
  tip.style.top = `${below + height <= innerHeight ? below : Math.max(8, box.top - height - 4)}px`;
}

function hide() {
  clearTimeout(timer);
  if (opener && tip.isConnected) tip.hidePopover();
}

tip.addEventListener("toggle", (event) => {
  if (event.newState === "closed") opener = null;
});
addEventListener("scroll", hide, { passive: true });
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-term]");
  if (button) show(button);
});
document.addEventListener("pointerover", (event) => {
  if (event.pointerType !== "mouse") return;
  clearTimeout(timer);
  const button = event.target.closest?.("[data-term]");
  if (button) timer = setTimeout(() => show(button), HOVER_MILLISECONDS);
  else if (opener && !tip.contains(event.target)) timer = setTimeout(hide, HOVER_MILLISECONDS);
});

for (const text of document.querySelectorAll("[data-explain]")) {
  text.replaceWith(explained(text.textContent, text.dataset.explain || text.textContent));
}
