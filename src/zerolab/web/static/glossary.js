// Glossary page: all terms, each with an explanation and the name of a more detailed document.

import { byId, el } from "./lib/dom.js";
import { allEntries, anchorOf } from "./lib/help.js";

byId("terms").replaceChildren(
  ...allEntries().map(({ term, also, text, more }) =>
    el(
      "div",
      { id: anchorOf(term) },
      el("dt", {}, term, also.length ? el("span", { class: "soft" }, ` (${also.join(", ")})`) : ""),
      el("dd", {}, `${text} `, el("span", { class: "soft" }, "More in ", el("code", {}, `docs/${more}`))),
    ),
  ),
);
if (location.hash) byId(location.hash.slice(1))?.scrollIntoView();
