// Studies page: a list of studies with their state at each scale.

import { get } from "./lib/api.js";
import { keepShowing, linkTo } from "./lib/archive.js";
import { byId, el, table } from "./lib/dom.js";

const REFRESH_SECONDS = 8;
const SCALES = ["smoke", "mini", "small", "paper"];

function show(studies) {
  const rows = studies.map((study) => [
    el("strong", {}, study.name),
    study.help,
    ...SCALES.map((scale) => cell(study, scale)),
  ]);
  byId("studies").replaceChildren(table(["study", "description", ...SCALES], rows, { caption: "Studies" }));
}

function cell(study, scale) {
  const begun = study.begun.find((each) => each.scale === scale);
  const word = !begun ? "not started" : begun.running ? "running" : begun.report ? "report" : "started";
  const link = linkTo("study", { name: study.name, scale }, word, { "aria-label": `${study.name}, ${scale}: ${word}` });
  if (!begun) link.classList.add("soft");
  return link;
}

keepShowing(() => get("/studies"), show, REFRESH_SECONDS);
