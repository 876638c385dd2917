// Studies page: a card for each study with its strongest verdict, the figure and all verdicts.

import { get } from "./lib/api.js";
import { keepShowing, linkTo, pText, rounded, verdictClass } from "./lib/archive.js";
import { byId, el } from "./lib/dom.js";

const REFRESH_SECONDS = 8;
const SCALES = ["smoke", "mini", "small", "paper"];

function show(studies) {
  const focused = document.activeElement?.id;
  studies.sort((a, b) => (reported(b).length > 0) - (reported(a).length > 0));
  byId("studies").replaceChildren(...studies.map(card));
  if (focused) byId(focused)?.focus();
}

/** Scales of a study with verdicts; those of scale smoke show nothing. */
const reported = (study) => study.begun.filter((each) => each.headline && each.scale !== "smoke");

function card(study) {
  const largest = reported(study).sort((a, b) => SCALES.indexOf(b.scale) - SCALES.indexOf(a.scale))[0];
  const title = `study-${study.name}`;
  return el(
    "article",
    { class: "panel", "aria-labelledby": title },
    el("h2", { id: title }, study.name), el("p", {}, study.help),
    largest ? headline(study, largest) : el("p", { class: "soft" }, "No report with verdicts has been written yet."),
    el("p", { class: "row" }, SCALES.map((scale) => scaleLink(study, scale))),
  );
}

/** Strongest verdict, numbers of verdicts, and the figure. */
function headline(study, { scale, report, headline: { strongest, figure, verdicts } }) {
  const counts = Object.entries(verdicts).map(([word, number]) => el("span", { class: verdictClass(word) }, `${number} ${word}`));
  const words = strongest
    ? [
        el("p", { class: "verdict" }, el("strong", { class: verdictClass(strongest.verdict) }, capitalised(strongest.verdict)), `: ${strongest.claim} `, el("span", { class: "soft" }, strongest.source)),
        el("p", { class: "soft" }, `Measured ${rounded(strongest.found)}, claimed ${strongest.threshold}; ${pText(strongest.adjusted_p)}, adjusted for all claims (Holm).`),
      ]
    : [el("p", {}, "No verdict is decided yet.")];
  const image = el("img", { src: figure, alt: `Figure of the report of ${study.name}`, loading: "lazy" });
  return [
    words, el("p", { class: "row" }, el("span", { class: "soft" }, `Verdicts at the scale ${scale}:`), counts),
    figure ? el("a", { class: "figure", href: report, target: "_blank", rel: "noopener", "aria-label": `Report of ${study.name}, ${scale}` }, image) : null,
  ];
}

const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function scaleLink(study, scale) {
  const begun = study.begun.find((each) => each.scale === scale);
  const word = !begun ? "not started" : begun.running ? "running" : begun.report ? "report" : "started";
  const id = `${study.name}-${scale}`;
  return linkTo("study", { name: study.name, scale }, `${scale}: ${word}`, { id, "aria-label": `${study.name}, ${scale}: ${word}`, class: begun ? null : "soft" });
}

keepShowing(() => get("/studies"), show, REFRESH_SECONDS);
