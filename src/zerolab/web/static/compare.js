// Compare page: live curves for several runs in shared charts, and a table of settings that differ.

import { Socket, get } from "./lib/api.js";
import { hashAll, interval, linkTo, setting, withoutOptions } from "./lib/archive.js";
import { colourOfRun, keepColours } from "./lib/curves.js";
import { byId, el, hashParams, percent, showError, table } from "./lib/dom.js";
import { drawIntervals } from "./lib/intervals.js";
import { Panels, shortName } from "./lib/panels.js";

const MOST = 12;
let socket = null;
let request = 0;
let records = new Map();
const panels = new Panels(byId("curves"), change);

/** Run `work`, superseding earlier work; `isLatest()` returns whether its result is still wanted. */
async function supersede(work) {
  const number = (request += 1);
  const isLatest = () => number === request;
  showError(byId("error"), "");
  try {
    await work(isLatest);
  } catch (error) {
    if (isLatest()) showError(byId("error"), error);
  }
}

async function begin(isLatest) {
  const runs = (await get("/runs")).filter((each) => each.status !== "damaged");
  if (!isLatest()) return;
  byId("axis").value = hashParams().x ?? "iterations";
  byId("nothing").hidden = runs.length > 1;
  const selected = hashAll("run").slice(0, MOST);
  byId("runs").replaceChildren(
    ...runs.map((each) =>
      el(
        "label",
        { class: "inline" },
        el("input", { type: "checkbox", value: each.run, checked: selected.includes(each.run), onchange: change }),
        el("span", { class: "swatch", hidden: true }),
        `${each.run} (${each.game})`,
      ),
    ),
  );
  await show(isLatest);
}

const selectedRuns = () => [...byId("runs").querySelectorAll("input:checked")].map((each) => each.value);

function change() {
  const address = new URLSearchParams(selectedRuns().map((run) => ["run", run]));
  if (panels.x !== "iterations") address.set("x", panels.x);
  history.replaceState(null, "", `#${address}`);
  supersede(show);
}

async function show(isLatest) {
  const runs = selectedRuns();
  keepColours(runs);
  for (const box of byId("runs").querySelectorAll("input")) {
    box.disabled = runs.length >= MOST && !box.checked;
    box.nextSibling.hidden = runs.length < 2 || !box.checked;
    if (box.checked) box.nextSibling.style.setProperty("--series", colourOfRun(box.value));
  }
  socket?.close();
  socket = null;
  if (!runs.length) {
    byId("curves").replaceChildren(el("p", { class: "soft" }, "Select runs above."));
    byId("differences").textContent = "";
    byId("strength-part").hidden = true;
    return;
  }
  await Promise.all([showCurves, showStrength, showDifferences].map((each) => each(runs, isLatest)));
  if (!isLatest()) return;
  records = new Map();
  const onMessage = (update) => isLatest() && receive(update, runs, isLatest);
  socket = new Socket(`/runs/live?${queryOf(runs)}`, { onMessage });
}

const queryOf = (runs) => new URLSearchParams(runs.map((run) => ["run", run]));

async function showCurves(runs, isLatest) {
  const curves = Object.entries(await get(`/runs/curves?${queryOf(runs)}&x=${panels.x}`));
  if (!isLatest()) return;
  // Training Elo is relative to earlier networks in the same run, so it cannot be used to compare runs.
  const isComparable = (panel) => runs.length === 1 || panel.key !== "elo";
  // Accuracy is the best measure for comparing runs, so it comes first.
  const isAccuracy = (panel) => panel.key.startsWith("accuracy");
  const inOrder = (all) => all.filter(isComparable).sort((a, b) => isAccuracy(b) - isAccuracy(a));
  panels.show(Object.fromEntries(curves.map(([run, each]) => [run, inOrder(each)])));
}

/** Show the results of the final evaluations by opponent, leaving out earlier networks of a run. */
async function showStrength(runs, isLatest) {
  const details = await Promise.all(runs.map((run) => get("/runs/one", { run })));
  if (!isLatest()) return;
  const results = details.flatMap(({ run, baselines }) => baselines.map((each) => ({ ...each, run: run.run })));
  const opponents = [...new Set(results.map((each) => each.opponent))].filter((name) => !name.startsWith("@"));
  byId("strength-part").hidden = runs.length < 2 || !opponents.length;
  const figures = opponents.map((opponent) => {
    const figure = el("div", { class: "ratings" });
    const rows = results.filter((each) => each.opponent === opponent).sort((a, b) => b.score_rate - a.score_rate);
    drawIntervals(figure, rows.map((each) => ({ ...each, name: shortName(each.run, runs), value: each.score_rate, colour: colourOfRun(each.run) })), {
      text: percent, steps: [0.1, 0.25, 0.5], label: `Points per game against ${opponent}`, range: [0, 1],
    });
    return el("div", {}, el("h3", {}, `Against ${withoutOptions(opponent, opponents)}`), figure);
  });
  const rows = results
    .filter((each) => opponents.includes(each.opponent))
    .map((each) => [each.opponent, linkTo("run", { run: each.run }, each.run), interval(each.score_rate, each.low, each.high), each.wins + each.draws + each.losses]);
  const values = table(["opponent", "run", "points per game, 95 % interval", "games"], rows, { numbers: [3], caption: "Points per game" });
  byId("strength").replaceChildren(el("div", { class: "grid" }, figures), el("details", {}, el("summary", {}, "Values"), values));
}

async function showDifferences(runs, isLatest) {
  if (runs.length < 2) {
    byId("differences").textContent = "Select at least two runs to compare their settings.";
    return;
  }
  const differences = await get(`/runs/differences?${queryOf(runs)}`);
  if (!isLatest()) return;
  const rows = differences.map((each) => [el("code", {}, each.key), ...each.values.map(setting)]);
  const headings = ["setting", ...runs.map((run) => linkTo("run", { run }, run))];
  byId("differences").replaceChildren(
    rows.length ? table(headings, rows, { caption: "Settings by run" }) : "All settings are the same.",
  );
}

function receive(update, runs, isLatest) {
  if (update.error) {
    showError(byId("error"), update.error);
    return;
  }
  const { run } = update.run;
  const hasGrown = records.has(run) && records.get(run) !== update.record_count;
  records.set(run, update.record_count);
  if (hasGrown) showCurves(runs, isLatest).catch((error) => showError(byId("error"), error));
}

addEventListener("hashchange", () => supersede(begin));

supersede(begin);
