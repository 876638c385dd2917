"""The page of all findings: verdicts by scale, sentences to remember, links and refused ledgers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_studies import Tiny, planned

from zerolab.cli.main import main
from zerolab.core.registry import Registry
from zerolab.report.claims import Claim
from zerolab.report.html import html_page
from zerolab.report.text import markdown_page
from zerolab.studies import findings
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import Design
from zerolab.studies.ledger import FinishedWorkRow, Ledger, LedgerHeader, read_ledger, write_ledger
from zerolab.studies.statistics import estimate_mean

FIRST = Claim("gain", "It gains.", "[Paper, Fig. 1]", "gain", 0.0, "above", 1.0, figure="gain")
SECOND = Claim("single", "It gains in one game.", "[Paper]", "gain", 5.0, "above", 1.0, "gain")
SEEDS = [100, 101, 102, 103]


class Gains(Tiny):
    """Gain of a method."""

    name = "gains"
    claims = (FIRST, SECOND)

    def seed_count(self, scale):
        return len(SEEDS)

    def design(self, scale, seeds):
        return Design([planned("value", seed) for seed in seeds], [])

    def verdicts(self, results):
        gains = [run.measurements["gain"] for run in results]
        estimate = estimate_mean(gains) if gains else MissingEstimate("no runs")
        return results.judge(lambda results: dict.fromkeys(self.claims, estimate))


class Others(Gains):
    """Another method, without any measurements."""

    name = "others"
    claims = (FIRST, replace(SECOND, source="zerolab, on [Paper]"))


STUDIES = Registry("study")
for each in (Gains(), Others()):
    STUDIES.add(each.name, each)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(findings, "registered_studies", lambda: STUDIES)


def write(folder, gains, scale="mini", study="gains", **header):
    """Write a ledger of runs with the given gains and return its path."""
    design = STUDIES["gains"].design(scale, SEEDS)
    rows = [
        FinishedWorkRow(
            "run", run.part, run.label, run.key, run.factors["seed"], measurements={"gain": gain}
        )
        for run, gain in zip(design.runs, gains, strict=True)
    ]
    named = {"study": study, "scale": scale, "design": STUDIES["gains"].design_digest("mini")}
    folder.mkdir(parents=True)
    write_ledger(
        folder / "ledger.parquet", Ledger(LedgerHeader(**named | header), SEEDS, rows, len(SEEDS))
    )
    return folder / "ledger.parquet"


def judged(folder):
    ledgers, refused = findings.read_ledgers(folder)
    studies, unfit = findings.judge_studies(ledgers)
    return studies, [*refused, *unfit]


@pytest.mark.parametrize("precise", ["gains", "others"])
def test_verdict_of_the_greater_power_counts(precise, tmp_path):
    noisy = "others" if precise == "gains" else "gains"
    write(tmp_path / precise, [0.9, 1.0, 1.1, 1.0], study=precise)
    write(tmp_path / noisy, [-9.0, 11.0, 6.0, -4.0], study=noisy)
    page = markdown_page(findings.findings_document(judged(tmp_path)[0], lambda path, name: ""))
    assert "Verdicts on the primary ones: holds 1," in page


def test_verdicts_at_two_scales(tmp_path):
    write(tmp_path / "gains", [2.0, 2.1, 1.9, 2.0])
    write(tmp_path / "gains-small", [0.0, 0.1, -0.1, 0.0], "small")
    (gains, others), refused = judged(tmp_path)
    assert refused == []
    assert (others.scales, others.largest_scale) == ({}, None)
    words = {scale: [each.verdicts[claim].word for claim in gains.claims]
             for scale, each in gains.scales.items()}  # fmt: skip
    assert words == {"mini": ["holds", "does not hold"], "small": ["equal", "does not hold"]}
    page = findings.findings_document([gains, others], lambda path, name: "")
    text = markdown_page(page)
    assert (
        "2 published findings, of which 1 are primary. Verdicts on the primary ones: holds 0,"
    ) in text
    assert "1 questions of our own, with the source zerolab, of which 0 are primary" in text
    assert "Findings repeated from another study (1) count" in text
    assert "| smallest effect of interest | primary | verdict at mini | found at mini |" in text
    assert "not measured yet" in text
    assert html_page(page, {}).count("equal within 1<") == 1


@pytest.mark.parametrize(
    ("small_noise", "noise", "starts"),
    [
        (0.1, 0.9, ["Equal within 1: It gains", "Does not hold: It gains in one game"]),
        (0.9, 0.1, ["Does not hold: It gains in one game", "Holds: It gains"]),
    ],
)
def test_sentences_are_of_the_largest_scale_and_of_the_greater_power(
    small_noise, noise, starts, tmp_path
):
    write(tmp_path / "gains", [2.0, 2.1, 1.9, 2.0])
    write(tmp_path / "gains-small", [0.0, small_noise, -small_noise, 0.0], "small")
    write(tmp_path / "others", [3.0, 3.0 + noise, 3.0 - noise, 3.0], study="others")
    sentences = findings.strongest_verdict_sentences(judged(tmp_path)[0])
    assert [sentence.split(".")[0] for sentence in sentences] == starts
    if noise == 0.1:
        assert sentences[1].endswith(
            "Found 3.00 (2.87 to 3.13), claimed above 0: gain (mini, 4 seeds)."
        )


def test_page_links_to_figures_and_reports(tmp_path, capsys):
    ledger = write(tmp_path / "results" / "gains", [2.0, 2.1, 1.9, 2.0])
    for name in ("gain.png", "README.md"):
        ledger.with_name(name).touch()
    output = tmp_path / "findings.md"
    assert main(["findings", "--folder", str(ledger.parents[1]), "--output", str(output)]) == 0
    page = output.read_text()
    assert "[holds](results/gains/gain.png)" in page
    assert "[does not hold](results/gains/README.md)" in page
    assert str(output) in capsys.readouterr().out


def test_refused_ledgers_are_named(tmp_path, capsys):
    write(tmp_path / "smoke", [0.0] * 4, "smoke")
    first = write(tmp_path / "first", [0.0] * 4)
    second = write(tmp_path / "second", [0.0] * 4)
    other = write(tmp_path / "other", [0.0] * 4, design="0" * 16)
    unknown = write(tmp_path / "unknown", [0.0] * 4, study="gain")
    damaged = tmp_path / "damaged" / "ledger.parquet"
    damaged.parent.mkdir()
    damaged.write_bytes(b"PAR1")
    ledgers, refused = findings.read_ledgers(tmp_path)
    assert list(ledgers) == [first]
    assert [[str(path) in message for path in (damaged, other, second)] for message in refused] == [
        [True, False, False], [False, True, False], [False, False, True], [False] * 3
    ]  # fmt: skip
    assert 'unknown study "gain"' in refused[-1]
    assert str(unknown) in refused[-1]
    assert main(["findings", "--folder", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("skipped: ") == 4
    found = {(each["study"], each["key"]): each for each in json.loads(printed.out)}
    assert found["gains", "gain"]["seeds"] == 4
    assert found["others", "gain"]["verdict"] == "no data"


def test_ledger_without_its_measurements_is_refused(tmp_path):
    write(tmp_path / "gains", [1.0] * 4)
    path = tmp_path / "gains" / "ledger.parquet"
    ledger = read_ledger(path)
    write_ledger(path, replace(ledger, rows=[replace(row, measurements={}) for row in ledger.rows]))
    (gains, _), refused = judged(tmp_path)
    assert gains.scales == {}
    assert [str(path) in message for message in refused] == [True]


@pytest.mark.parametrize(
    "options",
    [["--output", "page.pdf"], ["--folder", "missing"], ["--json", "--output", "page.md"]],
)
def test_wrong_options_are_refused(options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("studies").mkdir()
    assert main(["findings", *options]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert options[-1] in message or "leave out --output" in message
