// Terms with a tooltip from the glossary, for mouse, touch and keyboard.

import all from "../glossary.json" with { type: "json" };
import { announce, el } from "./dom.js";

const HOVER_MILLISECONDS = 250;
const byName = index((each) => [each.term, ...each.also]);
const byHeading = index((each) => each.headings);
const tip = el("div", { class: "tip", popover: "auto", id: "tip" });
let opener = null;
let timer = null;

function index(namesOf) {
  return new Map(all.flatMap((each) => namesOf(each).map((name) => [name.toLowerCase(), each])));
}

/** All entries of the glossary. */
export const allEntries = () => all;

/** Anchor of a term on the Glossary page. */
export const anchorOf = (term) => term.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");

/**
 * Button with a tooltip if the glossary contains `term` or, by default, lists the text as a heading;
 * otherwise the text. Other glossary terms can have a different meaning when used in a heading.
 */
export function explained(text, term = "") {
  if (typeof text !== "string") return text;
  const entry = term ? byName.get(term.toLowerCase()) : byHeading.get(text.toLowerCase());
  if (!entry) return text;
  return el("button", { type: "button", class: "term", "data-term": entry.term, "aria-expanded": "false" }, text);
}

/** Show the tooltip for a term; if opened from the keyboard, its link gets the focus. */
function show(button, isFromKeyboard = false) {
  const entry = byName.get(button.dataset.term.toLowerCase());
  if (!entry || opener === button) return;
  if (opener) tip.hidePopover();
  forget();
  opener = button;
  const more = el("a", { href: `/glossary#${anchorOf(entry.term)}` }, "More in the glossary");
  tip.replaceChildren(el("p", {}, el("strong", {}, entry.term), `: ${entry.text}`), more);
  tip.showPopover({ source: button }); // the page can redraw the button without closing it
  button.setAttribute("aria-expanded", "true");
  place(button);
  announce(`${entry.term}: ${entry.text}`);
  if (isFromKeyboard) more.focus();
}

/** Put the tooltip below the term, or above it if there is no room. */
function place(button) {
  const box = button.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const below = box.bottom + 4;
  tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
  tip.style.top = `${below + height <= innerHeight ? below : Math.max(8, box.top - height - 4)}px`;
}

/** Record that no term shows the tooltip any more. */
function forget() {
  opener?.setAttribute("aria-expanded", "false");
  opener = null;
}

function hide() {
  clearTimeout(timer);
  if (opener) tip.hidePopover();
}

document.body.append(tip);
tip.addEventListener("toggle", (event) => {
  if (event.newState === "closed") forget();
});
addEventListener("scroll", hide, { passive: true });
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-term]");
  if (button) show(button, event.detail === 0);
});
document.addEventListener("pointerover", (event) => {
  if (event.pointerType !== "mouse") return;
  clearTimeout(timer);
  const button = event.target.closest?.("[data-term]");
  if (button) timer = setTimeout(() => show(button), HOVER_MILLISECONDS);
  else if (opener && !tip.contains(event.target)) timer = setTimeout(hide, HOVER_MILLISECONDS);
});
