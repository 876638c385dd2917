// Search tree whose nodes open to show their moves, the most visited first.

import { el, signed } from "./dom.js";

const SHOWN = 10;

/** Tree in an element. `requestNode(path)` requests a node, which the page passes to `show`. */
export class Tree {
  constructor(host, requestNode) {
    this.host = host;
    this.requestNode = requestNode;
    this.clear();
  }

  clear() {
    this.nodes = new Map();
    this.opened = new Set();
    this.host.replaceChildren(el("p", { class: "soft" }, "Nothing searched yet."));
  }

  /** True if the root is shown without open nodes, so that it can be refreshed during the search. */
  get isOpen() {
    return this.nodes.size > 0 && this.opened.size === 0;
  }

  /** Paths of the root and all open nodes. */
  get paths() {
    return [[], ...[...this.opened].map((key) => key.split(" "))];
  }

  show(node) {
    this.nodes.set(node.path.join(" "), node);
    this.#draw();
  }

  #draw() {
    const focused = this.host.contains(document.activeElement) ? document.activeElement.dataset.path : null;
    this.host.replaceChildren(this.#list([]));
    if (focused !== null) this.host.querySelector(`[data-path="${focused}"]`)?.focus();
  }

  #list(path) {
    const node = this.nodes.get(path.join(" "));
    if (!node) return el("p", { class: "soft" }, "Loading…");
    if (!node.children.length) return el("p", { class: "soft" }, "The search has not expanded this node.");
    const items = node.children.slice(0, SHOWN).map((child) => this.#item([...path, child.name], child));
    const hidden = node.children.length - items.length;
    if (hidden > 0) items.push(el("li", { class: "soft" }, `and ${hidden} more`));
    return el("ul", {}, items);
  }

  #item(path, child) {
    const key = path.join(" ");
    const isOpen = this.opened.has(key);
    const results = { 1: " wins", 0: " draws", "-1": " loses" };
    const facts = `N ${child.visits}  P ${child.prior.toFixed(3)}  Q ${signed(child.value)}  U ${child.bonus === null ? "∞" : signed(child.bonus)}`;
    const toggle = el(
      "button",
      {
        type: "button", class: "quiet", "data-path": key, disabled: child.visits === 0 || child.outcome !== null,
        "aria-expanded": String(isOpen), onclick: () => this.#toggle(path),
      },
      `${isOpen ? "▾" : "▸"} ${child.name}${child.outcome === null ? "" : results[child.outcome]}`,
    );
    return el("li", {}, toggle, el("code", { class: "soft" }, facts), isOpen ? this.#list(path) : null);
  }

  #toggle(path) {
    const key = path.join(" ");
    if (this.opened.delete(key)) {
      this.#draw();
      return;
    }
    this.opened.add(key);
    this.#draw();
    this.requestNode(path);
  }
}
