// Compare page: live curves of several runs in shared charts, and a table of settings that differ.

import { Socket, get } from "./lib/api.js";
import { drawPanels, hashAll, linkTo, setting } from "./lib/archive.js";
import { byId, el, hashParams, showError, table } from "./lib/dom.js";

const MOST = 12;
let socket = null;
let records = new Map();

async function begin() {
  const runs = (await get("/runs")).filter((each) => each.status !== "damaged");
  byId("nothing").hidden = runs.length > 1;
  byId("axis").value = hashParams().x ?? "iterations";
  const selected = hashAll("run").slice(0, MOST);
  byId("runs").replaceChildren(
    ...runs.map((each) =>
      el(
        "label",
        { class: "inline" },
        el("input", { type: "checkbox", value: each.run, checked: selected.includes(each.run), onchange: change }),
        `${each.run} (${each.game})`,
      ),
    ),
  );
  await show();
}

const selectedRuns = () => [...byId("runs").querySelectorAll("input:checked")].map((each) => each.value);

function change() {
  const address = new URLSearchParams(selectedRuns().map((run) => ["run", run]));
  if (byId("axis").value !== "iterations") address.set("x", byId("axis").value);
  history.replaceState(null, "", `#${address}`);
  show().catch((error) => showError(byId("error"), error));
}

async function show() {
  showError(byId("error"), "");
  const runs = selectedRuns();
  for (const box of byId("runs").querySelectorAll("input")) box.disabled = runs.length >= MOST && !box.checked;
  socket?.close();
  socket = null;
  if (!runs.length) {
    byId("curves").replaceChildren(el("p", { class: "soft" }, "Select runs above."));
    byId("differences").textContent = "";
    return;
  }
  await Promise.all([showCurves(runs), showDifferences(runs)]);
  records = new Map();
  socket = new Socket(`/runs/live?${queryOf(runs)}`, { onMessage: receive });
}

const queryOf = (runs) => new URLSearchParams(runs.map((run) => ["run", run]));

async function showCurves(runs) {
  const x = byId("axis").value;
  const curves = Object.entries(await get(`/runs/curves?${queryOf(runs)}&x=${x}`));
  // Training Elo is relative to earlier networks of the same run, so it cannot compare runs.
  const isComparable = (panel) => runs.length === 1 || panel.key !== "elo";
  drawPanels(byId("curves"), Object.fromEntries(curves.map(([run, panels]) => [run, panels.filter(isComparable)])), x);
}

async function showDifferences(runs) {
  if (runs.length < 2) {
    byId("differences").textContent = "Select at least two runs to compare their settings.";
    return;
  }
  const differences = await get(`/runs/differences?${queryOf(runs)}`);
  const rows = differences.map((each) => [el("code", {}, each.key), ...each.values.map(setting)]);
  const headings = ["setting", ...runs.map((run) => linkTo("run", { run }, run))];
  byId("differences").replaceChildren(
    rows.length ? table(headings, rows, { caption: "Settings by run" }) : "All settings are the same.",
  );
}

function receive(update) {
  if (update.error) {
    showError(byId("error"), update.error);
    return;
  }
  const { run } = update.run;
  const hasGrown = records.has(run) && records.get(run) !== update.records;
  records.set(run, update.records);
  if (hasGrown) showCurves(selectedRuns()).catch((error) => showError(byId("error"), error));
}

byId("axis").addEventListener("change", change);
addEventListener("hashchange", () => begin().catch((error) => showError(byId("error"), error)));

begin().catch((error) => showError(byId("error"), error));
