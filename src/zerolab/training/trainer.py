"""The iteration loop: it runs stages in order and commits what each of them did.

Whatever a stage computes depends on the settings, the iteration and what earlier stages saved.
So a run killed at any moment repeats the stage it was in and ends with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import peak_memory
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import best_device
from zerolab.play.pairings import check_openings
from zerolab.play.selfplay_modes import require_actors
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import RunProgress
from zerolab.training.configure import saved_settings
from zerolab.training.context import Stage, TrainingContext, remember_environment
from zerolab.training.criteria import StopRule
from zerolab.training.evaluation_stages import check_baselines, solved_positions
from zerolab.training.facts import check_heads, read_split, solved_window
from zerolab.training.league import run_league
from zerolab.training.learner import Learner
from zerolab.training.published_bugs import PublishedBugs
from zerolab.training.records import FINAL_RECORDS, Record
from zerolab.training.reporting import EventFile, NullReporter, Reporter, read_records
from zerolab.training.settings import TrainSettings
from zerolab.training.sources import (
    FEATURES_COPY,
    find_feature_source,
    find_start,
    with_feature_source,
)
from zerolab.training.stages import FINAL, ITERATION, SUPERVISED


class Trainer:
    """Trains one run; the caller locks `run` while `train` is under way.

    `on_record` is called with every record of a finished stage once it is saved. An exception that
    it raises stops training, after the stage.
    """

    def __init__(
        self,
        run: RunFolder,
        settings: TrainSettings,
        reporter: Reporter | None = None,
        on_record: Callable[[Record], None] = lambda _: None,
        *,
        stages: Sequence[Stage] | None = None,
    ) -> None:
        """Get ready; raise UserError where what the settings name cannot be used."""
        game = parse_game(settings.game)
        source = find_feature_source(settings, run)
        settings = with_feature_source(settings, source)
        network = build_network(settings.network, game, settings.seed)
        defects = PublishedBugs(settings.defects)
        learn = defects.learning(settings.learn)
        split = read_split(settings.supervised, game, run.positions_path)
        self.stages = stages or (ITERATION if split is None else SUPERVISED)
        self.context = TrainingContext(
            run=run,
            settings=settings,
            game=game,
            learner=Learner(network, learn, settings.targets, best_device()),
            window=defects.window(game, learn),
            solved=solved_positions(settings.accuracy, game, run.positions_path),
            solved_split=split,
            source=source,
            reporter=reporter or NullReporter(),
            progress=run.progress,
            defects=defects,
            league=run_league(run.games, settings),
        )
        self._on_record = on_record
        self._events = EventFile(run)

    def train(self) -> None:
        """Run every stage that is still to be done, up to the final evaluation."""
        self._prepare()
        while not self.context.progress.finished:
            self._run(self._next_stage())

    def _next_stage(self) -> Stage:
        name = self.context.progress.stage
        for stage in (*self.stages, FINAL):
            if stage.name == name:
                return stage
        known = ", ".join(stage.name for stage in self.stages)
        path = self.context.run.path / "state.json"
        raise UserError(f"{path}: unknown stage {quoted(name)}: expected one of {known}")

    def _prepare(self) -> None:
        """Save network 0, or load what earlier stages saved."""
        context, run = self.context, self.context.run
        context.progress = run.progress
        if run.progress == RunProgress():
            context.update(stage=self.stages[0].name)
            self._save_first_network()
        if context.source is not None:
            run.keep_source(FEATURES_COPY, context.source.stored.content)
        run.prune()
        self._fill_window()
        if message := remember_environment(run, context.learner):
            context.reporter.message(message)
        self._events.update()
        # Last, so that a finished run whose files are damaged stays finished.
        if context.settings != saved_settings(run):
            run.save_config(context.settings.model_dump())
        if self._next_stage() is FINAL and not self._is_over():
            context.update(stage=self.stages[0].name, finished=False)
            run.commit(context.progress, [])

    def _save_first_network(self) -> None:
        """Save network 0: an untrained one, or one made of what the run starts from."""
        context, run = self.context, self.context.run
        if context.settings.start is not None:
            if 0 in run.networks():
                return  # what it was made of may be gone
            start = find_start(context.settings, run)
            assert start is not None
            context.settings = context.settings.model_copy(update={"start": start.settings})
            run.save_config(context.settings.model_dump())
            context.learner.load(start.taken.weights, start.optimizer)
            context.reporter.message(start.describe())
        context.save_network(0)

    def _fill_window(self) -> None:
        """Add the examples of earlier iterations that are in the window, or that left traces."""
        context, run = self.context, self.context.run
        if context.solved_split is not None:
            context.window = solved_window(
                context.solved_split.training,
                context.defects,
                context.settings.learn,
                context.learner.columns,
            )
            return
        learn, latest, total = context.settings.learn, run.latest_examples, run.progress.positions
        count = cache(run.count_full_examples)
        first = 1 if learn.merging.is_on else learn.window.first_needed(latest, total, count)
        iterations = range(first, latest + 1)
        earlier = 0 if first == 1 else total - sum(map(count, iterations))
        context.window.skip(first - 1, earlier)
        for iteration in iterations:
            context.restore_examples(iteration)

    def _run(self, stage: Stage) -> None:
        """Run a stage, make it durable, and report it."""
        context = self.context
        records = stage.run(context)
        memory = {"wall_memory": peak_memory()}
        records = [each.model_copy(update=memory) for each in records]
        self._advance(stage, records)
        context.run.commit(context.progress, [record.line() for record in records])
        if context.progress.stage in (self.stages[0].name, FINAL.name):
            context.run.prune()
        self._events.update()
        for record in records:
            context.reporter.stage_finished(record)
            self._on_record(record)

    def _advance(self, stage: Stage, records: Sequence[Record]) -> None:
        """Set the next stage: one of this iteration that is due, or the first of the next one."""
        context = self.context
        if stage is FINAL:
            context.update(finished=True)
            return
        following = self.stages[self.stages.index(stage) + 1 :]
        due = next((each for each in following if each.is_due(context)), None)
        if due is not None:
            context.update(stage=due.name)
            return
        context.update(iteration=context.progress.iteration + 1)
        context.update(stage=FINAL.name if self._is_over(records) else self.stages[0].name)

    def _is_over(self, uncommitted: Sequence[Record] = ()) -> bool:
        """Return whether no iteration follows those whose records are in the metrics or given."""
        context = self.context
        if context.progress.iteration > context.settings.iterations:
            return True
        records = [*read_records(context.run), *uncommitted]
        rule: StopRule = context.settings.stop
        return rule.is_met([each for each in records if not isinstance(each, FINAL_RECORDS)])


def check_inputs(settings: TrainSettings) -> None:
    """Raise UserError, before there is a run, for settings that would fail one of its stages.

    They name what is not there, or ask for what the game has not.
    """
    game = parse_game(settings.game)
    solved_positions(settings.accuracy, game)
    if split := read_split(settings.supervised, game):
        check_heads(settings.network, split.training)
    find_feature_source(settings)
    find_start(settings)
    require_actors(settings.selfplay.mode)
    _check_openings(settings, game)
    check_baselines(settings, game)


def _check_openings(settings: TrainSettings, game: Game) -> None:
    """Raise UserError where a match to come begins with more plies than games have."""
    final, warm_start = settings.final_evaluation, settings.warm_start
    asked = {"final_evaluation": final.openings if final.games else 0}
    if not settings.supervised.positions:
        asked["gate"] = settings.gate.openings if settings.gate.games else 0
        if warm_start.is_on and warm_start.schedule.match is not None:
            asked["warm_start.schedule"] = warm_start.schedule.match.openings
    for section, plies in asked.items():
        try:
            check_openings(game, plies)
        except UserError as error:
            raise UserError(f"{section}.openings = {plies}: {error}") from None
