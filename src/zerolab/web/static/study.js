// Study page: a study's progress, claims and report at one scale.

import { get } from "./lib/api.js";
import { count, duration, goTo, keepShowing, rounded, showTitle, verdictClass } from "./lib/archive.js";
import { byId, el, hashParams, setHashParams, table } from "./lib/dom.js";

const REFRESH_SECONDS = 6;

function load() {
  const { name, scale = "mini" } = hashParams();
  byId("scale").value = scale;
  return get("/studies/one", { name, scale });
}

function show(study) {
  byId("content").hidden = false;
  showTitle(study.name);
  byId("help").textContent = study.description;
  const { planned_core_seconds: seconds, finished_core_seconds: done } = study.whole_study;
  byId("progress").value = seconds ? done / seconds : 1;
  byId("state").textContent = stateOf(study);
  byId("command").replaceChildren(el("code", {}, study.command));
  byId("report").replaceChildren(...reportLinks(study));
  byId("claims").replaceChildren(study.claims.length ? claimTable(study.claims) : "No report with claims has been written yet.");
  byId("parts").replaceChildren(partTable(study));
  byId("active").textContent = study.active_titles.length ? `In progress: ${study.active_titles.join(", ")}` : "";
  const failures = Object.entries(study.failures);
  byId("failures").replaceChildren(
    ...failures.flatMap(([task, lines]) => [el("h3", { class: "bad" }, `Failed: ${task}`), el("pre", { tabindex: 0 }, lines.join("\n"))]),
  );
}

function stateOf(study) {
  const { planned_core_seconds: seconds, finished_core_seconds: done } = study.whole_study;
  if (!study.has_begun) return `Not started. The study takes about ${duration(seconds)} on one core. Start the study with:`;
  const left = seconds - done;
  if (study.is_running) return `Running. About ${duration(left)} of work left on one core.`;
  return left > 1 ? `Stopped. About ${duration(left)} of work left on one core. Resume the study with:` : "Finished. The command was:";
}

function reportLinks(study) {
  if (!study.report_url) return [];
  const folder = study.report_url.slice(0, study.report_url.lastIndexOf("/"));
  const others = study.files.filter((name) => /\.(csv|svg)$/.test(name));
  return [
    el("a", { href: study.report_url, target: "_blank", rel: "noopener" }, "Full report"),
    others.length
      ? el(
          "details",
          {},
          el("summary", {}, "Tables and figures"),
          el("ul", {}, others.map((name) => el("li", {}, el("a", { href: `${folder}/${name}`, target: "_blank", rel: "noopener" }, name)))),
        )
      : null,
  ].filter(Boolean);
}

function claimTable(claims) {
  const rows = claims.map((each) => [
    el("span", { class: verdictClass(each.verdict) }, each.verdict),
    el("span", {}, `${each.claim} `, el("span", { class: "soft" }, each.reference)),
    rounded(each.claimed), rounded(each.measured), rounded(each.adjusted_p_text), each.note,
  ]);
  const headings = ["verdict", "claim", "claimed", "measured, 95 % interval", "p (Holm)", "note"];
  return table(headings, rows, { caption: "Claims and verdicts" });
}

function partTable(study) {
  const all = { ...study.whole_study, part: "total" };
  const rows = [...study.parts, all].map((each) => [
    each.part, of(each.finished_runs, each.planned_runs), of(each.finished_games, each.planned_games),
    of(each.finished_computations, each.planned_computations), duration(Math.max(0, each.planned_core_seconds - each.finished_core_seconds)),
  ]);
  const headings = ["part", "runs", "games", "computations", "work left on one core"];
  return table(headings, rows, { numbers: [1, 2, 3, 4], caption: "Parts", isDense: true });
}

const of = (done, every) => (every ? `${count(done)} of ${count(every)}` : "–");

if (hashParams().name) {
  const showAgain = keepShowing(load, show, REFRESH_SECONDS);
  byId("scale").addEventListener("change", () => {
    setHashParams({ name: hashParams().name, scale: byId("scale").value });
    showAgain();
  });
  addEventListener("hashchange", showAgain);
} else {
  goTo("studies", {});
}
