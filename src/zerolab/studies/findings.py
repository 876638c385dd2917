"""Findings of all papers, with the verdicts from the ledgers in a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.core.errors import UserError, quoted
from zerolab.report.claims import Claim, Verdict, VerdictWord
from zerolab.report.document import Block, Document, Heading, Paragraph
from zerolab.report.table import P_VALUE_FORMAT, Cell, Column, Link, Table, cell_text
from zerolab.store.checks import user_errors_on_read
from zerolab.studies.ledger import Ledger, LedgerHeader, read_ledger
from zerolab.studies.results import Results, provenance, read_results
from zerolab.studies.study import LEDGER_FILE_NAME, SCALES, Scale, Study, registered_studies

_MAX_MEMORABLE = 10
_COUNTED: Mapping[VerdictWord, str] = {
    "holds": "holds",
    "does not hold": "does not hold",
    "equal": "equal within the smallest effect of interest",
    "undecided": "undecided",
    "no data": "not measured yet",
}

FigureLinker = Callable[[Path, str], str]
"""Function that maps a ledger's path and a figure's name (empty for the whole report) to the target
of a link (empty if there is no such file)."""


class JudgedScale(NamedTuple):
    """Verdicts of a study at one scale."""

    ledger_path: Path
    seed_count: int
    verdicts: Mapping[Claim, Verdict]
    results: Results


@dataclass(frozen=True)
class JudgedStudy:
    """Claims of a study with the verdicts at every scale that has a ledger."""

    study: Study
    claims: Sequence[Claim]
    scales: Mapping[Scale, JudgedScale]

    @property
    def largest_scale(self) -> JudgedScale | None:
        """Verdicts at the largest scale; None if there is no ledger."""
        return next((self.scales[each] for each in reversed(SCALES) if each in self.scales), None)


def read_ledgers(folder: Path) -> tuple[dict[Path, Ledger], list[str]]:
    """Return the ledgers in the subfolders of `folder`, and a message for each rejected one.

    A ledger is rejected if it is damaged, belongs to an unknown study or a different design, or is
    the second for its study and scale. Ledgers of the `smoke` scale are ignored because they prove
    nothing.
    """
    ledgers: dict[Path, Ledger] = {}
    refused: list[str] = []
    seen: dict[LedgerHeader, Path] = {}
    for path in sorted(folder.glob(f"*/{LEDGER_FILE_NAME}")):
        try:
            ledger = read_ledger(path)
            if ledger.header.scale == "smoke":
                continue
            if ledger.header.study not in registered_studies():
                raise UserError(f"{quoted(path)}: unknown study {quoted(ledger.header.study)}")
            registered_studies()[ledger.header.study].scale_of_ledger(path, ledger.header)
            if (other := seen.setdefault(ledger.header, path)) != path:
                raise UserError(
                    f"{quoted(path)} has the same study and scale as {quoted(other)}: expected"
                    " only one of them, or a ledger in which zerolab report has merged them"
                )
        except UserError as error:
            refused.append(str(error))
        else:
            ledgers[path] = ledger
    return ledgers, refused


def judge_studies(
    ledgers: Mapping[Path, Ledger], update: Callable[[int, str], None] = lambda done, note: None
) -> tuple[list[JudgedStudy], list[str]]:
    """Return all studies with their claims and the verdicts from `ledgers`.

    `update` is called with the number of finished ledgers and the name of the current study. Also
    return a message for each ledger whose content does not match its study.
    """
    refused: list[str] = []
    scales: dict[str, dict[Scale, JudgedScale]] = {name: {} for name in registered_studies()}
    for done, (path, ledger) in enumerate(ledgers.items()):
        update(done, ledger.header.study)
        study = registered_studies()[ledger.header.study]
        scale = study.scale_of_ledger(path, ledger.header)
        try:
            with user_errors_on_read(path):
                results = read_results(study.design(scale, ledger.seeds), ledger)
                verdicts = {each.claim: each for each in study.verdicts(results)}
        except UserError as error:
            refused.append(str(error))
            continue
        seed_count = len(results.design.seeds)
        scales[study.name][scale] = JudgedScale(path, seed_count, verdicts, results)
    studies = [
        JudgedStudy(study, study_claims(study), scales[name])
        for name, study in registered_studies().items()
    ]
    return studies, refused


def study_claims(study: Study) -> list[Claim]:
    """Return the claims of a study, which do not depend on the scale."""
    without_results = Results("smoke", study.planned_design("smoke"), [], {})
    return [each.claim for each in study.verdicts(without_results)]


def findings_document(
    studies: Sequence[JudgedStudy], link: FigureLinker, refused: Sequence[str] = ()
) -> Document:
    """Return a page with a sentence for each of the strongest verdicts and one row per finding.

    `refused` contains a message for each ledger that was left out.
    """
    blocks: list[Block] = [Paragraph(_summary(studies))]
    blocks += [Paragraph(f"Left out: {message}") for message in refused]
    blocks.append(Heading("The strongest verdicts"))
    blocks += [Paragraph(sentence) for sentence in strongest_verdict_sentences(studies)]
    for each in studies:
        blocks += [
            Heading(each.study.name),
            Paragraph(each.study.description),
            _table(each, link),
        ]
    judged = [scale for each in studies for scale in each.scales.values()]
    return Document(
        "Verdicts on published findings",
        "Each finding restates a claim of the authors in our words, with the statistic that tests"
        " it. A verdict applies to runs of the size named by its scale; except at the paper scale,"
        " they are smaller than the published runs. Primary findings are tested first. Any other"
        " finding of a study is tested only once the primary finding on which it depends is"
        " decided; until then it is undecided, however small its p-value. p-values are corrected"
        " for the number of findings tested together, so the interval of an undecided finding can"
        " lie beyond its threshold. The power is the probability that this number of runs decides"
        " a finding if the true statistic differs from the threshold by the number in the column"
        " titled smallest effect of interest or, for findings of equality and of no loss or gain,"
        " equals the threshold. The effect for which the power would be 80 % is given in brackets."
        " Even where the power is low, much larger effects can be detected. The smallest of several"
        " differences is biased downwards and the largest upwards; their tests are not biased.",
        blocks,
        provenance(_all_results(judged)),
    )


def _all_results(judged: Sequence[JudgedScale]) -> Results:
    """Return the runs of all studies as one result; only its provenance is meaningful."""
    from zerolab.studies.design import Design  # noqa: PLC0415

    runs = {run.planned.key: run for each in judged for run in each.results.runs}
    return Results("mini", Design([], []), list(runs.values()), {})


def _counting_studies(studies: Sequence[JudgedStudy]) -> dict[Claim, JudgedStudy]:
    """Return the study with the greatest power for each claim; only its verdict is counted.

    The power depends on the design and the variation between runs, but not on the effect that was
    found.
    """
    counting: dict[Claim, JudgedStudy] = {}
    for study in studies:
        for claim in study.claims:
            if claim not in counting or _power(study, claim) > _power(counting[claim], claim):
                counting[claim] = study
    return counting


def _power(study: JudgedStudy, claim: Claim) -> float:
    verdict = study.largest_scale.verdicts[claim] if study.largest_scale else None
    return -1.0 if verdict is None or verdict.word == "no data" else verdict.power or 0.0


def _summary(studies: Sequence[JudgedStudy]) -> str:
    """Return the number of primary findings by verdict, at the largest scale of each study."""
    words: dict[Claim, VerdictWord] = {
        claim: study.largest_scale.verdicts[claim].word if study.largest_scale else "no data"
        for claim, study in _counting_studies(studies).items()
    }
    published = {claim: word for claim, word in words.items() if claim.is_published}
    counts = Counter(word for claim, word in published.items() if claim.is_primary)
    parts = ", ".join(f"{title} {counts[word]}" for word, title in _COUNTED.items())
    ours = [claim for claim in words if not claim.is_published]
    repeated = sum(len(each.claims) for each in studies) - len(words)
    return (
        f"{len(published)} published findings, of which {counts.total()} are primary. Verdicts on"
        f" the primary ones: {parts}. The tables also have {len(ours)} questions of our own, with"
        f" the source zerolab, of which {sum(claim.is_primary for claim in ours)} are primary."
        f" Findings repeated from another study ({repeated}) count once here, with the verdict that"
        " has the greater power."
    )


def strongest_verdict_sentences(studies: Sequence[JudgedStudy]) -> list[str]:
    """Return a sentence for each of the ten strongest verdicts.

    Only published findings are included, each once. The sentences alternate between studies. Within
    a study, primary claims come first, then findings that were not confirmed, then small p-values.
    """
    counting = _counting_studies(studies)
    by_study = [
        [
            _sentence(verdict, each, scale)
            for verdict in sorted(each.verdicts.values(), key=_order)
            if verdict.is_decided
            and verdict.claim.is_published
            and counting[verdict.claim] is study
        ]
        for study in studies
        for scale, each in study.scales.items()
        if each is study.largest_scale
    ]
    turns = zip_longest(*by_study)
    return [each for turn in turns for each in turn if each is not None][:_MAX_MEMORABLE]


def _order(verdict: Verdict) -> tuple[bool, bool, float]:
    p = 1.0 if verdict.adjusted_p_value is None else verdict.adjusted_p_value
    return not verdict.claim.is_primary, verdict.word == "holds", p


def _sentence(verdict: Verdict, judged: JudgedScale, scale: Scale) -> str:
    claim = verdict.claim
    title = verdict.title[0].upper() + verdict.title[1:]
    seeds = f", {judged.seed_count} seeds" if judged.seed_count else ""
    return (
        f"{title}: {claim.text} {claim.source} Found {cell_text(verdict.estimate)}, claimed"
        f" {claim.claimed_relation}: {claim.statistic} ({scale}{seeds})."
    )


def _table(judged: JudgedStudy, link: FigureLinker) -> Table:
    """Return a table with a row for each finding of a study and the verdict at each scale."""
    columns: list[str | Column] = [
        "finding", "source", "statistic", "claimed", Column("smallest effect of interest", "g"),
        "primary",
    ]  # fmt: skip
    for scale in judged.scales:
        columns += [
            f"verdict at {scale}", f"found at {scale}",
            Column(f"p (Holm) at {scale}", P_VALUE_FORMAT), f"power at {scale}",
            f"seeds at {scale}",
        ]  # fmt: skip
    if not judged.scales:
        columns.append("verdict")
    rows = [
        [
            claim.text, claim.source, claim.statistic, claim.claimed_relation,
            claim.smallest_effect, "yes" if claim.is_primary else "",
            *_verdict_cells(claim, judged, link),
        ]
        for claim in judged.claims
    ]  # fmt: skip
    return Table("", f"Findings of {judged.study.name}", columns, rows)


def _verdict_cells(claim: Claim, judged: JudgedStudy, link: FigureLinker) -> list[Cell]:
    cells: list[Cell] = []
    for each in judged.scales.values():
        verdict = each.verdicts[claim]
        target = link(each.ledger_path, claim.figure) or link(each.ledger_path, "")
        title = f"{verdict.title} ({verdict.note})" if verdict.note else verdict.title
        cells += [
            Link(title, target), verdict.estimate, verdict.adjusted_p_value, _power_text(verdict),
            each.seed_count or None,
        ]  # fmt: skip
    return cells or ["not measured yet"]


def _power_text(verdict: Verdict) -> str:
    """Return the power and the effect detected with a power of 80 %, or nothing."""
    if verdict.power is None or verdict.detectable_effect is None:
        return ""
    effect = (
        f"{verdict.detectable_effect:.2g}"
        if verdict.detectable_effect < 10
        else f"{verdict.detectable_effect:.0f}"
    )
    return f"{cell_text(verdict.power, '.0%')} (80 % for {effect})"


def findings_as_dict(studies: Iterable[JudgedStudy]) -> list[dict[str, Any]]:
    """Return all findings for JSON, by claim and scale; the scale is None if there is no ledger."""
    entries: list[dict[str, Any]] = []
    for each in studies:
        for claim in each.claims:
            entry = {"study": each.study.name, "key": claim.key, "claim": claim.text,
                     "source": claim.source}  # fmt: skip
            for scale, judged in each.scales.items():
                verdict = judged.verdicts[claim].as_dict()
                entries.append({**entry, "scale": scale, "seeds": judged.seed_count, **verdict})
            if not each.scales:
                entries.append({**entry, "scale": None, "seeds": 0, "verdict": "no data"})
    return entries
