// One study at a scale: progress, claims and report.

import { get } from "./lib/api.js";
import { count, duration, goTo, keepShowing } from "./lib/archive.js";
import { byId, el, hashParams, setHashParams, table } from "./lib/dom.js";

const LOOK_SECONDS = 6;
const WORDS = { holds: "good", "does not hold": "bad" };

function load() {
  const { name, scale = "mini" } = hashParams();
  byId("scale").value = scale;
  return get("/studies/one", { name, scale });
}

function show(found) {
  document.title = `${found.name} · zerolab`;
  byId("study-title").textContent = found.name;
  byId("help").textContent = found.help;
  const { seconds, done_seconds: done } = found.whole;
  byId("progress").value = seconds ? done / seconds : 1;
  byId("state").textContent = stateOf(found);
  byId("command").replaceChildren(el("code", {}, found.command));
  byId("report").replaceChildren(...reportLinks(found));
  byId("claims").replaceChildren(found.claims.length ? claimTable(found.claims) : "No report with claims has been written yet.");
  byId("parts").replaceChildren(partTable(found));
  byId("active").textContent = found.active.length ? `In progress: ${found.active.join(", ")}` : "";
  const failures = Object.entries(found.failures);
  byId("failures").replaceChildren(
    ...failures.flatMap(([task, lines]) => [el("h3", { class: "bad" }, `Failed: ${task}`), el("pre", { tabindex: 0 }, lines.join("\n"))]),
  );
}

function stateOf(found) {
  const { seconds, done_seconds: done } = found.whole;
  if (!found.begun) return `Not started; it takes about ${duration(seconds)} of work on one core. Start it with:`;
  const left = seconds - done;
  if (found.running) return `Running: about ${duration(left)} of work on one core are left.`;
  return left > 1 ? `Stopped: about ${duration(left)} of work on one core are left. Continue it with:` : "Finished, by:";
}

function reportLinks(found) {
  if (!found.report) return [];
  const folder = found.report.slice(0, found.report.lastIndexOf("/"));
  const others = found.files.filter((name) => /\.(csv|svg)$/.test(name));
  return [
    el("a", { href: found.report, target: "_blank", rel: "noopener" }, "Full report"),
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
    el("span", { class: WORDS[each.verdict] ?? "soft" }, each.verdict),
    el("span", {}, `${each.claim} `, el("span", { class: "soft" }, each.source)),
    rounded(each.threshold), rounded(each.found), rounded(each.adjusted_p), each.note,
  ]);
  const headings = ["verdict", "claim", "claimed", "found, 95 % interval", "p (Holm)", "note"];
  return table(headings, rows, { caption: "Claims and verdicts" });
}

/** A text with its numbers rounded to three digits. */
const rounded = (text) => text.replace(/-?\d+\.\d+(e-?\d+)?/g, (number) => String(Number(Number(number).toPrecision(3))));

function partTable(found) {
  const all = { ...found.whole, part: "total" };
  const rows = [...found.parts, all].map((each) => [
    each.part, of(each.finished_runs, each.runs), of(each.finished_games, each.games),
    of(each.finished_computations, each.computations), duration(Math.max(0, each.seconds - each.done_seconds)),
  ]);
  const headings = ["part", "runs", "games", "computations", "work left, on one core"];
  return table(headings, rows, { numbers: [1, 2, 3, 4], caption: "Parts" });
}

const of = (done, every) => (every ? `${count(done)} of ${count(every)}` : "–");

if (hashParams().name) {
  const showAgain = keepShowing(load, show, LOOK_SECONDS);
  byId("scale").addEventListener("change", () => {
    setHashParams({ name: hashParams().name, scale: byId("scale").value });
    showAgain();
  });
  addEventListener("hashchange", showAgain);
} else {
  goTo("studies", {});
}
