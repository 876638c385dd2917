"""The iteration loop, which runs the stages in order and commits each stage before the next.

The results of a stage depend only on the settings, the iteration and the files of earlier stages.
If a run is killed at any moment and resumed, it repeats the interrupted stage and ends with the
same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from time import perf_counter, process_time

from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import available_cores, is_multiprocessing_child
from zerolab.core.resources import peak_memory_mib
from zerolab.evaluation.positions import check_recorded_games
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import use_device
from zerolab.play.executors import THREAD_EXECUTOR, Executor, ProcessExecutor
from zerolab.play.pairings import check_opening_length
from zerolab.play.selfplay_settings import ContinuousMode, ServiceMode, require_ray_if_needed
from zerolab.rules.rules import Game
from zerolab.store.checks import user_errors_on_read
from zerolab.store.examples import Examples
from zerolab.store.folder import RunProgress
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import saved_settings
from zerolab.training.context import Stage, TrainingContext, reconstruct_league, record_environment
from zerolab.training.evaluation_stages import (
    AccuracyStage,
    FinalEvaluationStage,
    ValidationStage,
    check_baselines,
)
from zerolab.training.inputs import (
    FEATURE_NETWORK_FILE_NAME,
    RunInputs,
    read_inputs,
    with_feature_network,
)
from zerolab.training.learner import Learner
from zerolab.training.logger import default_loggers, open_loggers
from zerolab.training.published_bugs import EnabledBugs
from zerolab.training.records import Record
from zerolab.training.reporting import (
    LiveReporter,
    NullReporter,
    Reporter,
    RunClock,
)
from zerolab.training.selfplay_stage import (
    SelfPlayStage,
    begin_games_ahead,
    cancel_games_ahead,
)
from zerolab.training.stages import GateStage, LearnStage, WarmStartMatchStage
from zerolab.training.train_settings import TrainSettings
from zerolab.training.window_facts import require_solved_targets, solved_window

ITERATION_STAGES: tuple[Stage, ...] = (
    SelfPlayStage(),  # the best network plays against itself and produces examples
    LearnStage(),  # a candidate is trained from the best network on the window of examples
    GateStage(),  # the candidate can replace the best network
    WarmStartMatchStage(),  # an adaptive warm start ends if plain search is stronger
    AccuracyStage(),  # every few iterations and in the last, the best network is measured
)
"""Stages of an iteration, as in [Wang2020b, Algorithm 1]; stages that are not due are skipped."""

SUPERVISED_STAGES: tuple[Stage, ...] = (LearnStage(), ValidationStage(), AccuracyStage())
"""Stages of an iteration of supervised learning from solved positions."""

FINAL_STAGE = FinalEvaluationStage()
"""The stage after the last iteration."""


class Trainer:
    """Trainer of one run; the caller must lock `run` during `train`.

    `on_record` is called with every record of a finished stage after the record is saved. If the
    call raises an exception, training stops after that stage. `inputs` can be passed if
    `check_new_run` has already read them. `loggers` are names in `training.logger`. `executor`
    plays the games, by default in threads of this process or in `selfplay.processes`.
    """

    def __init__(
        self,
        run: RunFolder,
        settings: TrainSettings,
        reporter: Reporter | None = None,
        on_record: Callable[[Record], None] = lambda _: None,
        *,
        inputs: RunInputs | None = None,
        stages: Sequence[Stage] | None = None,
        loggers: Sequence[str] = (),
        executor: Executor | None = None,
    ) -> None:
        """Prepare training; raise UserError if an input or logger is missing or incompatible."""
        with use_device(settings.device) as device:
            inputs = read_inputs(settings, run) if inputs is None else inputs
        settings = with_feature_network(settings, inputs.feature_network)
        bugs = EnabledBugs(settings.published_bugs)
        learn = bugs.learner_settings(settings.learn)
        network = build_network(settings.network, inputs.game, settings.seed)
        self.stages = stages or (
            ITERATION_STAGES if inputs.solved_split is None else SUPERVISED_STAGES
        )
        self.context = TrainingContext(
            run=run,
            settings=settings,
            inputs=inputs,
            learner=Learner(network, learn, settings.target_options, device),
            window=bugs.new_window(inputs.game, learn),
            reporter=LiveReporter(run, reporter or NullReporter(), RunClock.of_run(run, settings)),
            progress=run.progress,
            enabled_bugs=bugs,
            league=reconstruct_league(run.games, settings),
            executor=executor or THREAD_EXECUTOR,
        )
        self._on_record = on_record
        self._last_record = perf_counter()
        self._log = open_loggers([*default_loggers(), *loggers], run)

    def train(self) -> None:
        """Run all remaining stages up to the final evaluation."""
        with use_device(self.context.settings.device):
            self._train()

    def _train(self) -> None:
        context = self.context
        self._last_record = perf_counter()
        try:
            self.prepare()
            with self._executor():
                while not context.progress.finished:
                    stage, start = self._current_stage(), process_time()
                    if stage is FINAL_STAGE:
                        cancel_games_ahead(context)
                    elif stage is not self.stages[0]:
                        begin_games_ahead(context)
                    records = stage.execute(context)
                    self._commit(stage, records, process_time() - start)
        finally:
            context.reporter.close()
            self._log.close()

    @contextmanager
    def _executor(self) -> Iterator[None]:
        """Play games in processes if the settings request it and this is not itself a worker."""
        context, play = self.context, self.context.settings.selfplay
        is_local = context.executor is THREAD_EXECUTOR
        is_worker = is_multiprocessing_child()  # parallel trials of `tune` share the cores
        is_splittable = play.processes > 1 and not isinstance(play.mode, ServiceMode)
        if context.progress.finished or not is_local or is_worker or not is_splittable:
            yield
            return
        with ProcessExecutor(min(play.processes, available_cores())) as executor:
            context.executor = executor
            try:
                yield
            finally:
                context.executor = THREAD_EXECUTOR

    def prepare(self) -> None:
        """Save network 0, or load the results of earlier stages."""
        context, run = self.context, self.context.run
        context.progress = run.progress
        if run.progress == RunProgress():
            context.update_progress(stage=self.stages[0].name)
            self._save_first_network()
        if context.inputs.feature_network is not None:
            run.save_copy_from_source_run(
                FEATURE_NETWORK_FILE_NAME, context.inputs.feature_network.network_file.content
            )
        run.prune()
        self._fill_window()
        self._check_games_to_continue()
        at_end = self._current_stage() is FINAL_STAGE
        is_over = at_end and self._is_over()
        continues = not (is_over and run.progress.finished)
        if continues and (message := record_environment(run, context.learner)):
            context.reporter.message(message)
        self._log.update()
        # Do this last, so that a finished run with damaged files stays finished.
        if context.settings != saved_settings(run):
            run.save_settings(context.settings.model_dump())
        if at_end and not is_over:
            context.update_progress(stage=self.stages[0].name, finished=False)
            run.commit(context.progress, [])

    def _save_first_network(self) -> None:
        """Save network 0, untrained or with the weights from which the run starts."""
        context, run = self.context, self.context.run
        if 0 in run.network_iterations() and context.settings.start is not None:
            return  # network 0 was saved before the run was killed
        if (initial := context.inputs.initial_weights) is not None:
            context.settings = context.settings.model_copy(update={"start": initial.start_settings})
            run.save_settings(context.settings.model_dump())
            context.learner.restore(initial.transferred_weights.weights, initial.optimizer_state)
            context.reporter.message(initial.describe())
        context.save_network(0)

    def _fill_window(self) -> None:
        """Fill the window with stored examples or, in a supervised run, solved positions."""
        context, run = self.context, self.context.run
        if context.inputs.solved_split is not None:
            positions, source = context.inputs.solved_split.training, context.inputs.feature_network
            context.window = solved_window(
                positions,
                context.enabled_bugs,
                context.settings.learn,
                context.learner.target_vector_columns,
                source.solved_feature_targets(positions) if source else None,
            )
            return
        learn, count = context.settings.learn, cache(run.read_full_search_count)
        latest, total = run.latest_example_iteration, run.progress.positions
        first = 1  # merged examples can include contributions from all iterations
        if not learn.merging.is_active:
            first = learn.window.first_needed_iteration(latest, total, count)
        iterations = range(first, latest + 1)
        skipped = 0 if first == 1 else total - sum(map(count, iterations))
        context.window.resume_after(first - 1, skipped)
        for iteration in iterations:
            context.load_examples_into_window(iteration)

    def _check_games_to_continue(self) -> None:
        """Raise UserError if games with which self-play continues have illegal moves.

        The run may have been downloaded, and kernels do not check moves.
        """
        context, run = self.context, self.context.run
        latest, settings = run.latest_example_iteration, self.context.settings
        if not latest or self._is_over():
            return

        def load_checked(iteration: int) -> Examples:
            examples, path = run.load_examples(iteration), run.examples_path(iteration)
            with user_errors_on_read(path):
                sequences = examples.move_sequences()
            check_recorded_games(path, context.game, sequences)
            return examples

        if isinstance(settings.selfplay.mode, ContinuousMode):
            games = run.load_unfinished_games(latest).games
            actions = (game.actions for game in games)
            check_recorded_games(run.unfinished_path(latest), context.game, actions)
        settings.selfplay.start.new_openings(
            load_checked, settings.search.discount, settings.seed, latest + 1
        )

    def _current_stage(self) -> Stage:
        """Return the next stage to run, as named in state.json."""
        name = self.context.progress.stage
        for stage in (*self.stages, FINAL_STAGE):
            if stage.name == name:
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        path = self.context.run.path / "state.json"
        raise UserError(f"{path}: unknown stage {quoted(name)}: expected one of {names}")

    def _commit(self, stage: Stage, records: Sequence[Record], processor_seconds: float) -> None:
        """Commit and report a finished stage."""
        context, now = self.context, perf_counter()
        measured: dict[str, float] = {"wall_memory": peak_memory_mib()}
        if len(records) == 1:
            measured["wall_elapsed_seconds"] = round(now - self._last_record, 4)
            measured["wall_processor_seconds"] = round(processor_seconds, 4)
        self._last_record = now
        records = [record.model_copy(update=measured) for record in records]
        context.uncommitted_records = records
        self._advance(stage)
        context.run.commit(context.progress, [record.as_dict() for record in records])
        context.uncommitted_records = ()
        if context.progress.stage in (self.stages[0].name, FINAL_STAGE.name):
            context.run.prune()
        self._log.update()
        for record in records:
            context.reporter.stage_finished(record)
            self._on_record(record)

    def _advance(self, stage: Stage) -> None:
        """Advance to the next stage due in this iteration, or to the next iteration."""
        context = self.context
        if stage is FINAL_STAGE:
            context.update_progress(finished=True)
            return
        following = self.stages[self.stages.index(stage) + 1 :]
        next_stage = next((each for each in following if each.is_due(context)), None)
        if next_stage is not None:
            context.update_progress(stage=next_stage.name)
            return
        context.update_progress(iteration=context.progress.iteration + 1)
        context.update_progress(stage=FINAL_STAGE.name if self._is_over() else self.stages[0].name)

    def _is_over(self) -> bool:
        return self.context.is_over_after(self.context.progress.iteration - 1)


def check_new_run(settings: TrainSettings) -> RunInputs:
    """Check the settings of a run that has no folder yet, and return its inputs.

    Raises UserError for settings with which a stage would fail, such as missing files, a missing
    device, or openings that are too long for the game.
    """
    with use_device(settings.device):
        inputs = read_inputs(settings)
    if inputs.solved_split is not None:
        require_solved_targets(settings.network, inputs.solved_split.training)
    require_ray_if_needed(settings.selfplay.mode)
    _check_openings(settings, inputs.game)
    check_baselines(settings, inputs.game)
    return inputs


def _check_openings(settings: TrainSettings, game: Game) -> None:
    """Raise UserError if the random openings of a match are too long for the game."""
    final, warm_start = settings.final_evaluation, settings.warm_start
    openings = {"final_evaluation": final.openings if final.games else 0}
    if not settings.supervised.positions:
        openings["gate"] = settings.gate.openings if settings.gate.games else 0
        if warm_start.is_active and warm_start.ramp.match_size is not None:
            openings["warm_start.ramp"] = warm_start.ramp.match_size.opening_plies
    for section, plies in openings.items():
        try:
            check_opening_length(game, plies)
        except UserError as error:
            raise UserError(f"{section}.openings = {plies}: {error}") from None
