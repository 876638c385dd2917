// Studies page: a card for each study with its strongest verdict, a figure, and verdict counts.

import { get } from "./lib/api.js";
import { keepShowing, linkTo, pText, rounded, verdictClass } from "./lib/archive.js";
import { title } from "./lib/choosers.js";
import { byId, el, replaceContent } from "./lib/dom.js";

const REFRESH_SECONDS = 8;
const PLURALS = { holds: "hold", "does not hold": "do not hold" };
const SCALES = ["smoke", "mini", "small", "paper"];

function show(studies) {
  studies.sort((a, b) => (reported(b).length > 0) - (reported(a).length > 0));
  replaceContent(byId("studies"), ...studies.map(card));
}

/** Scales of a study that have verdicts, except smoke, whose verdicts prove nothing. */
const reported = (study) => study.started_scales.filter((each) => each.verdict_summary && each.scale !== "smoke");

function card(study) {
  const largest = reported(study).sort((a, b) => SCALES.indexOf(b.scale) - SCALES.indexOf(a.scale))[0];
  const titleId = `study-${study.name}`;
  return el(
    "article",
    { class: "panel", "aria-labelledby": titleId },
    el("h2", { id: titleId }, study.name),
    el(
      "div",
      { class: "beside" },
      el(
        "div",
        {},
        el("p", {}, study.description),
        largest ? headline(largest) : el("p", { class: "soft" }, "No report with verdicts has been written yet."),
        el("p", { class: "row" }, SCALES.map((scale) => scaleLink(study, scale))),
      ),
      largest?.verdict_summary.figure_url ? figureOf(study, largest) : null,
    ),
  );
}

/** Strongest verdict, and the number of claims by verdict, with undecided claims last. */
function headline({ scale, verdict_summary: { strongest_claim: strongest, verdict_counts: verdicts } }) {
  const decided = Object.entries(verdicts).sort(([a], [b]) => (a === "undecided") - (b === "undecided"));
  const counts = decided.map(([word, number]) => el("span", { class: verdictClass(word) }, `${number} ${(number > 1 && PLURALS[word]) || word}`));
  const words = strongest
    ? [
        el("p", { class: "verdict" }, el("strong", { class: verdictClass(strongest.verdict) }, title(strongest.verdict)), `: ${strongest.claim} `, el("span", { class: "soft" }, strongest.reference)),
        el("p", { class: "soft" }, `Measured ${rounded(strongest.measured)}, claimed ${rounded(strongest.claimed)}; ${pText(strongest.adjusted_p_text)}, adjusted for all claims (Holm).`),
      ]
    : [el("p", {}, "No claim has been decided yet.")];
  return [words, el("p", { class: "row" }, el("span", { class: "soft" }, `Verdicts at the ${scale} scale:`), counts)];
}

/** Figure from a report, with a link to the report. */
function figureOf(study, { scale, report_url: report, verdict_summary: { figure_url: figure } }) {
  const image = el("img", { src: figure, alt: `Figure from the report on ${study.name}`, loading: "lazy" });
  return el("a", { class: "figure", href: report, target: "_blank", rel: "noopener", "aria-label": `Report on ${study.name}, ${scale}` }, image);
}

function scaleLink(study, scale) {
  const started = study.started_scales.find((each) => each.scale === scale);
  const word = !started ? "not started" : started.is_running ? "running" : started.report_url ? "report" : "started";
  return linkTo("study", { name: study.name, scale }, `${scale}: ${word}`, { "aria-label": `${study.name}, ${scale}: ${word}`, class: started ? null : "soft" });
}

keepShowing(() => get("/studies"), show, REFRESH_SECONDS);
