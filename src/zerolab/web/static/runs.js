// Runs page: a list of runs, and a form for starting a run.

import { get, post } from "./lib/api.js";
import { dateOf, goTo, keepShowing, linkTo, statusOf, withoutOptions } from "./lib/archive.js";
import { GameChooser } from "./lib/choosers.js";
import { sparkline } from "./lib/curves.js";
import { byId, checkFolderName, el, percent, replaceContent, showError, table } from "./lib/dom.js";

const REFRESH_SECONDS = 4;
const selected = new Set();
const chooser = new GameChooser(byId("game"), () => {});

function show(runs) {
  byId("nothing").hidden = runs.length > 0;
  const names = new Set(runs.map((each) => each.run));
  for (const name of selected) if (!names.has(name)) selected.delete(name);
  runs.sort((a, b) => b.latest_progress_time - a.latest_progress_time);
  const opponents = [...new Set(runs.flatMap((run) => Object.keys(run.final_score_rates)))];
  const hasAccuracy = runs.some((run) => run.accuracy !== null);
  const hasSource = runs.some((run) => run.start_network);
  const rows = runs.map((run) => [
    box(run.run), linkTo("run", { run: run.run }, run.run), sparkline(run.trend),
    statusOf(run), run.iterations ? `${run.iteration}/${run.iterations}` : "",
    ...(hasAccuracy ? [share(run.accuracy)] : []), ...opponents.map((name) => share(run.final_score_rates[name])),
    run.game, run.preset, ...(hasSource ? [run.start_network] : []), dateOf(run.latest_progress_time),
  ]);
  const measured = [...(hasAccuracy ? ["accuracy on solved positions"] : []), ...opponents.map((name) => `against ${withoutOptions(name, opponents)}`)];
  const headings = [
    "selected", "run", "trend", "status", "iteration", ...measured, "game", "preset", ...(hasSource ? ["started from"] : []), "latest progress",
  ];
  const numbers = [...headings.keys()].slice(4, 5 + measured.length);
  replaceContent(byId("runs"), runs.length ? table(headings, rows, { numbers, caption: "Runs", isDense: true }) : "");
  byId("networks").replaceChildren(...runs.map((run) => el("option", { value: run.run })));
  count();
}

const share = (value) => (value === null || value === undefined ? "" : percent(value, 1));

function box(run) {
  const change = (event) => {
    if (event.target.checked) selected.add(run);
    else selected.delete(run);
    count();
  };
  return el("input", { type: "checkbox", "aria-label": `Compare ${run}`, checked: selected.has(run), onchange: change });
}

function count() {
  byId("compare").disabled = selected.size < 2;
  byId("compare-hint").hidden = selected.size > 1;
}

byId("compare").addEventListener("click", () => goTo("compare", { run: [...selected] }));

byId("name").addEventListener("input", () => checkFolderName(byId("name")));

async function prepareForm() {
  const { allow_training: isAllowed } = await get("/server");
  byId("forbidden").hidden = isAllowed;
  if (!isAllowed) return;
  const presets = await get("/training/presets");
  byId("preset").replaceChildren(...presets.map((each) => el("option", { selected: each.name === "mini" }, each.name)));
  const explain = () => {
    byId("preset-title").textContent = presets.find((each) => each.name === byId("preset").value).title;
  };
  byId("preset").addEventListener("change", explain);
  explain();
  await chooser.load("connect_four:6x7");
  byId("start").hidden = false;
}

byId("start").addEventListener("submit", async (event) => {
  event.preventDefault();
  const lines = byId("settings").value.split("\n").map((each) => each.trim());
  try {
    showError(byId("start-error"), "");
    const training = await post("/training/start", {
      name: byId("name").value, game: chooser.value, preset: byId("preset").value,
      settings: lines.filter(Boolean), start_network: byId("source").value.trim(), transfer: byId("transfer").value,
    });
    goTo("run", { run: training.run });
  } catch (error) {
    showError(byId("start-error"), error);
  }
});

keepShowing(() => get("/runs"), show, REFRESH_SECONDS);
prepareForm().catch((error) => showError(byId("error"), error));
