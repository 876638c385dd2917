// The studies, and the scales at which they have been begun.

import { get } from "./lib/api.js";
import { linkTo, lookAgain } from "./lib/archive.js";
import { byId, el, showError, table } from "./lib/dom.js";

const LOOK_SECONDS = 8;
const SCALES = ["smoke", "mini", "small", "paper"];
let shown = "";

async function look() {
  try {
    const found = await get("/studies");
    showError(byId("error"), "");
    const text = JSON.stringify(found);
    if (text !== shown) show(found);
    shown = text;
  } catch (error) {
    showError(byId("error"), error);
  }
}

function show(found) {
  const rows = found.map((study) => [
    el("strong", {}, study.name),
    study.help,
    ...SCALES.map((scale) => cell(study, scale)),
  ]);
  byId("studies").replaceChildren(table(["study", "what it does", ...SCALES], rows, { caption: "Studies" }));
}

function cell(study, scale) {
  const begun = study.begun.find((each) => each.scale === scale);
  const word = !begun ? "not begun" : begun.running ? "at work" : begun.report ? "has a report" : "begun";
  const link = linkTo("study", { name: study.name, scale }, word, { "aria-label": `${study.name}, ${scale}: ${word}` });
  if (!begun) link.classList.add("soft");
  return link;
}

look();
lookAgain(look, LOOK_SECONDS);
