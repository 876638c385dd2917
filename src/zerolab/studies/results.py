"""Results of a study, the source of its report.

Results are read from a ledger, so a report needs neither the runs nor the machine that trained
them. A report can be generated at any time and lists the unfinished parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zerolab.core.code_digests import software_versions
from zerolab.core.errors import UserError
from zerolab.core.processes import available_cores
from zerolab.core.resources import processor_model
from zerolab.report.claims import ClaimTable, Verdict
from zerolab.report.document import Block, Heading, Paragraph, Provenance
from zerolab.store.folder import RunEnvironment
from zerolab.studies.claims import ClaimStatistics, Look, judge_claims
from zerolab.studies.design import Design, FactorLevel, PlannedRun
from zerolab.studies.finished_work import PlayedTournament, TrainedRun, finished_tournaments
from zerolab.studies.ledger import FinishedWorkRow, Ledger, PairScore
from zerolab.studies.looks import TakenLook, format_seeds


@dataclass(frozen=True)
class Results:
    """Finished part of a study."""

    scale: str
    design: Design
    runs: Sequence[TrainedRun]
    tournaments: Mapping[str, PlayedTournament]
    """Tournaments of the groups that are finished for all seeds of the design, by group."""
    computation_results: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Results of finished computations by title, such as ``part: label``."""
    looks: Sequence[TakenLook] = ()
    """Looks at the claims so far; empty if all seeds of the design form a single look."""
    planned_seed_count: int = 0
    """Number of seeds at the last look; 0 if it covers exactly the seeds of the design."""
    exclusion_messages: Sequence[str] = ()
    """Messages about unreadable files, which do not count as finished, and about seeds that are not
    part of a look yet."""

    def __iter__(self) -> Iterator[TrainedRun]:
        return iter(self.runs)

    def runs_where(self, part: str | None = None, **factors: FactorLevel) -> list[TrainedRun]:
        """Return the finished runs with the given levels of factors, of one part or all parts."""
        return [
            run for run in self.runs
            if part in (None, run.planned.part)
            and all(run.factors.get(name) == level for name, level in factors.items())
        ]  # fmt: skip

    def planned_levels(self, factor: str, part: str | None = None) -> list[FactorLevel]:
        """Return the planned levels of a factor, in the order of the design."""
        runs = (run for run in self.design.runs if part in (None, run.part))
        return list(dict.fromkeys(run.factors[factor] for run in runs if factor in run.factors))

    def unfinished_message(self, part: str | None = None) -> str:
        """Return a message about unfinished work of one part or all parts, or an empty string."""
        if part not in (None, *self.design.part_names):
            return f"{part} is not studied at this scale"
        planned = [run for run in self.design.runs if part in (None, run.part)]
        untrained = len(planned) - len(self.runs_where(part))
        tournaments = [each for each in self.design.tournaments if part in (None, each.part)]
        unplayed = dict.fromkeys(
            each.group_name for each in tournaments if each.group_name not in self.tournaments
        )
        messages = []
        if untrained:
            verb = "is" if untrained == 1 else "are"
            messages.append(f"{untrained} of {len(planned)} runs {verb} not finished")
        uncomputed = [
            each.label for each in self.design.computations
            if part in (None, each.part) and each.title not in self.computation_results
        ]  # fmt: skip
        if uncomputed:
            count = len(uncomputed)
            unfinished = "1 computation is" if count == 1 else f"{count} computations are"
            messages.append(f"{unfinished} not finished")
        if unplayed:
            messages.append(f"tournaments not finished: {', '.join(unplayed)}")
        return "; ".join(messages)

    def missing_runs_message(self) -> str:
        """Return a message about missing runs, or an empty string."""
        missing = len(self.design.runs) - len(self.runs)
        verb = "is" if missing == 1 else "are"
        return f"{missing} of {len(self.design.runs)} runs {verb} missing" if missing else ""

    @property
    def training_seconds(self) -> float:
        """Total training time of all distinct runs, in seconds."""
        return sum({run.planned.key: run.training_seconds for run in self.runs}.values())

    def restricted_to_seeds(self, seeds: Iterable[int]) -> Results:
        """Return the results of the runs with the given seeds, and of their tournaments."""
        chosen = set(seeds)
        design = self.design.restricted_to_seeds(chosen)
        scores = {
            key: scores for each in self.tournaments.values() for key, scores in each.scores.items()
        }
        return replace(
            self,
            design=design,
            runs=[run for run in self.runs if run.seed in chosen],
            tournaments=finished_tournaments(design, scores),
        )

    def judge(self, statistics: Callable[[Results], ClaimStatistics]) -> list[Verdict]:
        """Return the verdicts on the claims of a study.

        `statistics` computes the statistic of each claim. Decisions are made only at the looks, in
        order, and are final. A finished study without recorded looks is a single look at all its
        seeds; before its first look, nothing is tested. A study without seeds cannot grow, so its
        finished part is tested.
        """
        if not self.looks:
            look = Look((), len(self.design.seeds), self.training_seconds / 3600)
            unfinished = self.unfinished_message()
            if not unfinished and len(self.design.seeds) < self.planned_seed_count:
                unfinished = f"{len(self.design.seeds)} of {self.planned_seed_count} planned seeds"
            if unfinished and self.design.seeds:
                look = look._replace(untested_note=unfinished)
            return judge_claims(statistics(self), look)
        verdicts: list[Verdict] = []
        for number, taken in enumerate(self.looks, start=1):
            is_whole = taken.seeds == self.design.seeds
            part = self if is_whole else self.restricted_to_seeds(taken.seeds)
            look = Look(
                tuple(self.looks[:number]), len(taken.seeds), part.training_seconds / 3600,
                part.missing_runs_message(),
            )  # fmt: skip
            verdicts = judge_claims(statistics(part), look, verdicts)
        return verdicts


def read_results(design: Design, ledger: Ledger) -> Results:
    """Return the results in a ledger of a study with the given design.

    After the first look, only the results at the latest look are returned; later results stay
    hidden until the next look. Raises UserError if a run in the ledger has settings other than
    those planned.
    """
    messages = []
    if ledger.looks and ledger.looks[-1].seeds != list(ledger.seeds):
        design = design.restricted_to_seeds(ledger.looks[-1].seeds)
        unseen = sorted(set(ledger.seeds) - set(ledger.looks[-1].seeds))
        messages.append(f"seeds {format_seeds(unseen)}, until the next look")
    rows = {row.kind_part_and_label: row for row in ledger.rows}
    runs = [
        _trained_run(planned, row)
        for planned in design.runs
        if (row := rows.get(("run", planned.part, planned.label)))
    ]
    scores: dict[str, list[PairScore]] = {}
    for row in ledger.rows:
        for score in row.scores:
            scores.setdefault(score.tournament, []).append(score)
    computed = {
        planned.title: row.measurements
        for planned in design.computations
        if (row := rows.get(("computation", planned.part, planned.label)))
        and row.key == planned.key
    }
    played = finished_tournaments(design, scores)
    return Results(
        ledger.header.scale, design, runs, played, computed, ledger.looks,
        ledger.planned_seed_count, messages,
    )  # fmt: skip


def verdict_section(results: Results, verdicts: Sequence[Verdict]) -> list[Block]:
    """Return the first section of a report: notes on incomplete work, if any, and the verdicts."""
    notes = []
    if unfinished := results.unfinished_message():
        notes.append(Paragraph(f"The study is not finished: {unfinished}."))
    if results.looks and len(results.looks[-1].seeds) < results.looks[-1].planned_seed_count:
        look = results.looks[-1]
        notes.append(
            Paragraph(
                f"The findings were tested early, after {len(look.seeds)} of"
                f" {look.planned_seed_count} planned seeds. A study of these seeds alone repeats"
                " the measurements, but tests nothing before all planned seeds are finished."
            )
        )
    return [*notes, Heading("Findings"), ClaimTable(verdicts)]


def with_last_look(ledger: Ledger, design: Design) -> Ledger:
    """Return a ledger with a look at all planned seeds if all results are finished.

    The ledger is returned unchanged if it already has this look, or if the number of its seeds is
    not the number planned, now or at its latest look. `design` must cover all seeds of the ledger.
    """
    seeds = list(ledger.seeds)
    latest = ledger.looks[-1] if ledger.looks else TakenLook([], ledger.planned_seed_count, [])
    is_planned = len(seeds) == ledger.planned_seed_count == latest.planned_seed_count
    if not seeds or not is_planned or latest.seeds == seeds:
        return ledger
    if read_results(design, replace(ledger, looks=[])).unfinished_message():
        return ledger
    return replace(ledger, looks=[*ledger.looks, TakenLook(seeds, ledger.planned_seed_count, [])])


def _trained_run(planned: PlannedRun, row: FinishedWorkRow) -> TrainedRun:
    if row.key != planned.key:
        raise UserError(
            f"{planned.title} was trained with settings from a different version of the study"
            f" ({row.key}): expected a ledger from this version of zerolab, with {planned.key}"
        )
    return TrainedRun(planned, row.records, row.weights_digest, row.environments, row.measurements)


def provenance(results: Results) -> Provenance:
    """Return the provenance of results.

    The versions and machines are those used to train the runs or, if there are no runs, those of
    this process.
    """
    runs = {run.planned.key: run for run in results.runs}
    environments = [each for run in runs.values() for each in run.environments]
    machine = join_distinct(map(describe_machine, environments))
    return Provenance(
        run_count=len(runs),
        run_digests=[f"{key} {run.weights_digest}" for key, run in runs.items()],
        versions={
            name: join_distinct(getattr(each, name) for each in environments) or version
            for name, version in software_versions().items()
        },
        seeds=[run.planned.settings.seed for run in runs.values()],
        machine=machine or describe_this_machine(gpu_name()),
        training_hours=results.training_seconds / 3600,
    )


def timing_caveat(results: Results) -> str:
    """Return a caveat about the times of runs, to add to the caveats of a report."""
    count = sum(run.has_processor_times for run in results.runs)
    if count == len(results.runs):
        kind = "Times are processor times on the machine named in the last line"
    elif count:
        kind = (
            f"Times of {count} of {len(results.runs)} runs are processor times on the machine named"
            " in the last line, and those of the others are durations, which are longer if several"
            " workers trained runs in parallel"
        )
    else:
        kind = (
            "Times are durations on the machine named in the last line, where several workers may"
            " have trained runs in parallel"
        )
    return f"{kind}, so only ratios of times are comparable with published times."


def gpu_name() -> str:
    """Return the name of the GPU that this process would use, or an empty string."""
    import torch  # noqa: PLC0415  slow

    from zerolab.networks.inference import default_device  # noqa: PLC0415

    device = default_device()
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def describe_this_machine(gpu: str = "") -> str:
    """Describe the processor, number of cores and GPU of this machine."""
    return _joined(processor_model(), _cores(available_cores()), gpu)


def describe_machine(environment: RunEnvironment) -> str:
    """Describe the processor, device, precision and number of cores of an environment."""
    machine = _joined(environment.processor, environment.device, environment.precision)
    return f"{machine}, {_cores(environment.threads)} per run"


def _joined(*parts: str) -> str:
    return ", ".join(dict.fromkeys(filter(None, parts)))


def _cores(count: int) -> str:
    return f"{count} core" if count == 1 else f"{count} cores"


def join_distinct(texts: Iterable[str]) -> str:
    """Join distinct texts, as in ``2.12.0 and 2.13.0``."""
    return " and ".join(dict.fromkeys(texts))
