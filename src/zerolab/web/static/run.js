// Run page: progress, live curves, networks and settings, and controls to stop and resume training.

import { Socket, get, post } from "./lib/api.js";
import { count, duration, elo, goTo, interval, linkTo, setting, showFacts, showTitle, statusOf, withoutOptions } from "./lib/archive.js";
import { title } from "./lib/choosers.js";
import { byId, el, hashParams, percent, setHashParams, showError, table } from "./lib/dom.js";
import { LatestGames } from "./lib/latest_games.js";
import { Panels } from "./lib/panels.js";
import { fileOf } from "./lib/sharing.js";

const OUTPUT_SECONDS = 2;
const run = hashParams().run ?? "";
const panels = new Panels(byId("curves"), () => {
  setHashParams({ run, x: panels.x });
  guarded(showCurves);
});
const latestGames = new LatestGames(byId("games"));
let isAllowed = false;
let records = -1;
let details = null;
let suggested = ""; // last value that this script wrote to the iterations field

async function begin() {
  if (!run) {
    goTo("runs", {});
    return;
  }
  showTitle(run);
  isAllowed = (await get("/server")).allow_training;
  await waitForFolder();
  showLinks();
  await showAll();
  new Socket(`/runs/live?${new URLSearchParams({ run })}`, { onMessage: receive });
  if (isAllowed) setInterval(showTraining, 1000 * OUTPUT_SECONDS);
}

/** Wait for the folder of a newly started run, showing its output in the meantime. */
async function waitForFolder() {
  for (;;) {
    try {
      details = await get("/runs/one", { run });
      byId("content").hidden = false;
      return;
    } catch (error) {
      const isStarting = error.status === 404 && isAllowed && (await showTraining());
      if (!isStarting) throw error;
      byId("content").hidden = false;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

async function showAll() {
  details = await get("/runs/one", { run });
  showSummary(details.run);
  showNetworks();
  showSettings();
  showBaselines();
  const rows = details.environments.map((each) => [
    each.first_iteration, each.device, each.processor, each.precision, each.threads, each.python, each.torch, each.zerolab,
  ]);
  const headings = ["from iteration", "device", "processor", "precision", "cores", "Python", "PyTorch", "zerolab"];
  byId("environments").replaceChildren(rows.length ? table(headings, rows, { caption: "Environments" }) : "Not trained yet.");
  await showCurves();
  if (isAllowed) await showTraining();
}

function showSummary(summary) {
  const { iterations, final_score_rates: scores } = summary;
  const isFinished = summary.status === "finished";
  byId("progress").parentElement.hidden = isFinished;
  byId("progress").max = Math.max(1, iterations);
  byId("progress").value = Math.max(0, summary.iteration - 1);
  const facts = [
    ["Status", statusOf(summary), true], ["Iteration", `${summary.iteration} of ${iterations}`, true],
    ...Object.entries(scores).map(([name, score]) => [`Score against ${withoutOptions(name, Object.keys(scores))}`, percent(score, 1), true]),
    ...(summary.accuracy === null ? [] : [["Accuracy on solved positions", percent(summary.accuracy, 1), true]]),
    ["Game", summary.game], ["Preset", summary.preset || "–"],
    ...(isFinished ? [] : [["Next stage", summary.next_stage.replaceAll("_", " ")]]),
    ["Training time", duration(details.seconds)], ["Games", count(details.game_count)],
    ["Training Elo", elo(summary.training_elo)], ["Started from", summary.start_network || "untrained"],
  ];
  showFacts(byId("facts"), facts);
}

function showLinks() {
  const { game } = details.run;
  byId("links").replaceChildren(
    linkTo("replay", { source: run }, "View its games", { class: "button" }),
    linkTo("play", { game, o: run }, "Play against it", { class: "button" }),
    linkTo("analyse", { game, agents: run }, "Analyse with it", { class: "button" }),
    linkTo("compare", { run: [run] }, "Compare it", { class: "button" }),
  );
}

function showNetworks() {
  const { game } = details.run;
  const rows = [...details.networks].reverse().map((each) => [
    each.iteration + (each.is_best ? " (best)" : ""), elo(each.training_elo),
    linkTo("play", { game, o: each.agent }, "Play", { "aria-label": `Play against iteration ${each.iteration}` }),
    linkTo("analyse", { game, agents: each.agent }, "Analyse", { "aria-label": `Analyse with iteration ${each.iteration}` }),
    linkTo("replay", { source: run, player: each.agent }, "Games", { "aria-label": `Games played by iteration ${each.iteration}` }),
    el("a", { href: fileOf(each.agent), download: true, "aria-label": `File of iteration ${each.iteration}` }, "File"),
  ]);
  const headings = ["iteration", "training Elo", "play against it", "analyse with it", "its games", "download"];
  byId("networks").replaceChildren(rows.length ? table(headings, rows, { numbers: [1], caption: "Saved networks", isDense: true }) : "None yet.");
}

function showSettings() {
  if (!details) return; // the run is still starting
  const filter = byId("filter").value.trim().toLowerCase();
  const rows = Object.entries(details.settings)
    .map(([key, value]) => [el("code", {}, key), setting(value)])
    .filter(([key, value]) => `${key.textContent} ${value}`.toLowerCase().includes(filter));
  byId("settings").replaceChildren(rows.length ? table(["setting", "set to"], rows, { caption: "Run settings" }) : "No matching settings.");
}

function showBaselines() {
  byId("baselines-part").hidden = !details.baselines.length;
  const rows = details.baselines.map((each) => [
    each.opponent, each.wins, each.draws, each.losses, interval(each.score_rate, each.low, each.high),
  ]);
  const headings = ["opponent", "won", "drawn", "lost", "points per game, 95 % interval"];
  byId("baselines").replaceChildren(table(headings, rows, { numbers: [1, 2, 3], caption: "Results against baseline opponents" }));
}

async function showCurves() {
  panels.show(await get("/runs/curves", { run, x: panels.x }));
}

/** Show the progress within the stage, or hide it if the run is not being trained. */
function showStage({ run: summary, stage_progress: stage }) {
  byId("stage").hidden = !stage;
  if (!stage) return;
  byId("stage-progress").max = Math.max(1, stage.total);
  byId("stage-progress").value = Math.min(stage.done, stage.total);
  const parts = [
    `${title(stage.task)}: ${count(stage.done)} of ${count(stage.total)} ${stage.unit}`, stage.note,
    stage.seconds_left === null ? "" : `about ${duration(stage.seconds_left)} left`,
    stage.run_seconds_left === null ? "" : `about ${duration(stage.run_seconds_left)} left for the run`,
  ];
  byId("stage-text").textContent = parts.filter(Boolean).join(", ");
  if (!stage.latest_game) return;
  byId("games-part").hidden = false;
  latestGames.show(summary.game, stage.latest_game).catch((error) => showError(byId("error"), error));
}

function receive(update) {
  if (update.error) {
    showError(byId("error"), update.error);
    return;
  }
  byId("latest").textContent = update.latest_record_summary;
  const hasGrown = records >= 0 && update.record_count !== records;
  records = update.record_count;
  const hasChanged = JSON.stringify(update.run) !== JSON.stringify(details.run);
  details.run = update.run;
  if (hasChanged) showSummary(update.run);
  showStage(update);
  if (hasGrown) showAll().catch((error) => showError(byId("error"), error));
}

/** Show the controls and the process output; return whether the run is being trained. */
async function showTraining() {
  let training;
  try {
    training = await get("/training/one", { run });
  } catch {
    return false; // missing runs and servers are reported elsewhere
  }
  const isFinished = details?.run.status === "finished";
  byId("controls").hidden = false;
  byId("stop").hidden = !training.may_stop;
  byId("resume-part").hidden = training.is_running || !details;
  const field = byId("iterations");
  if (details && document.activeElement !== field && [suggested, ""].includes(field.value)) {
    suggested = String(details.run.iterations + (isFinished ? 10 : 0));
    field.value = suggested;
  }
  byId("output-part").hidden = !training.output.length;
  const text = training.output.join("\n");
  if (byId("output").textContent !== text) byId("output").textContent = text;
  if (!details) byId("latest").textContent = training.is_running ? "Starting the run…" : "The run could not be started.";
  if (!details && !training.is_running) byId("output-part").open = true;
  return training.is_running;
}

async function guarded(work) {
  try {
    showError(byId("error"), "");
    await work();
    await showTraining();
  } catch (error) {
    showError(byId("error"), error);
  }
}

byId("stop").addEventListener("click", () => guarded(() => post("/training/stop", { run })));
byId("resume").addEventListener("click", () =>
  guarded(() => {
    const iterations = Number(byId("iterations").value);
    return post("/training/resume", { run, ...(iterations ? { iterations } : {}) });
  }),
);
byId("filter").addEventListener("input", showSettings);
addEventListener("hashchange", () => location.reload());

begin().catch((error) => showError(byId("error"), error));
