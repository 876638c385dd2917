"""`zerolab train` and `zerolab fit`: training from games or from solved positions."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import tyro

from zerolab.cli.output import print_lines
from zerolab.cli.parse import Assignments
from zerolab.cli.process import advise_resuming
from zerolab.core.errors import UserError
from zerolab.core.resources import peak_memory_mib
from zerolab.training.shorthands import (
    DEFAULT_PRESET,
    TransferOption,
    option_assignments,
    preset_name,
)

if TYPE_CHECKING:
    from zerolab.cli.output import Console
    from zerolab.core.nested_tables import Assignment
    from zerolab.play.executors import Executor
    from zerolab.store.run_folder import RunFolder
    from zerolab.store.storage import RunStorage
    from zerolab.training.inputs import RunInputs
    from zerolab.training.records import Record
    from zerolab.training.train_settings import TrainSettings


LoggerNames = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")]


def train(
    game: tyro.conf.Positional[str | None] = None,
    *,
    preset: str | None = None,
    run: Path | None = None,
    from_: Annotated[str | None, tyro.conf.arg(name="from", metavar="RUN[@N]")] = None,
    transfer: TransferOption | None = None,
    set: Assignments = (),
    log: LoggerNames = (),
    ray: str = "",
    actors: int = 0,
    cores_per_actor: int = 1,
    storage: str = "",
    verbose: bool = False,
    quiet: bool = False,
    allow_programs: bool = False,
) -> None:
    """Train an agent, or resume an interrupted run.

    Every finished stage is saved. To resume a run, pass the run folder again; the result is the
    same as without the interruption. You can watch training in TensorBoard.

    Examples:
      zerolab train connect_four:6x7 --preset mini --run runs/demo
      zerolab train othello:6x6 --preset small --set search.simulations=50 --set seed=3
      zerolab train connect_four:6x7 --preset strong --set stop=1h
      zerolab train gobang:6x6 --set warm_start.variant=wrora --run runs/warm
      zerolab train connect_four:6x7 --from runs/othello@40 --transfer trunk
      zerolab train --run runs/demo
      zerolab train --run runs/demo --set iterations=40
      zerolab train --run runs/demo --ray HOST:6379

    Presets:
      {presets}

    Args:
        game: Game to learn, such as othello:6x6; the preset's game by default.
        preset: Preset name or .toml file to start from; mini by default.
        run: Run folder; runs/GAME-PRESET by default.
        from_: Network of another run to start from, which also determines the architecture.
            By default, training starts from an untrained network.
        transfer: Weights to copy with --from: the trunk (the default), the trunk frozen
            during training, the heads, all weights, or all weights with channels matched by
            meaning (docs/transfer.md).
        set: Setting to change, such as learn.epochs=5; can be repeated.
        log: Program that also receives the metrics of every stage: trackio, wandb or mlflow, whose
            logs are kept on this machine; can be repeated. Logs for TensorBoard are always written
            if it is installed.
        ray: Ray cluster whose machines play the games while this machine learns: HOST:PORT of a
            cluster that includes this machine, or local to start one here (docs/clusters.md). Does
            not affect results if devices and precision are the same; can be added or left out when
            a run is resumed.
        actors: Number of processes that play on the cluster; 0 means as many as fit, including
            on machines that join later. On a cluster with GPUs, each process has a GPU.
        cores_per_actor: Number of cores per process; each core plays some of the games.
        storage: Folder, file:///PATH or s3://BUCKET/PATH to which the run is copied after every
            iteration. If the run folder does not exist, the copy is fetched and resumed.
        verbose: Print all settings before the summary.
        quiet: Print neither settings nor progress.
        allow_programs: Allow running programs listed as baselines in a resumed run or preset file.
            Without this option, only programs named in --set are run, because files may be
            untrusted.
    """
    from zerolab.cli.output import Console
    from zerolab.networks.inference import use_device
    from zerolab.store.run_folder import RunFolder, is_run
    from zerolab.training.configure import assigned_keys, require_effects, resolve_settings
    from zerolab.training.logger import require_loggers
    from zerolab.training.shorthands import require_frozen_trunk, require_new_run_described
    from zerolab.training.trainer import check_new_run

    require_loggers(log)
    cluster = _cluster_options(ray, actors, cores_per_actor)
    set = (*_start_assignments(from_, transfer), *set)
    folder = run or _default_folder(game, preset, from_)
    console = Console(quiet=quiet)
    copy = _storage(storage, folder, console)
    existing, inputs = is_run(folder), None
    if existing:
        run_folder, settings = _resume(folder, game, preset, set, allow_programs)
        require_frozen_trunk(transfer, settings.learn.frozen)
    else:
        if run is not None:
            require_new_run_described(run, game, preset, assigned_keys(set))
        base = DEFAULT_PRESET if preset is None else preset
        settings = resolve_settings(game, base, set, allow_programs=allow_programs)
        require_effects(settings, set)
        _warn_of_preset(settings, base)
        require_frozen_trunk(transfer, settings.learn.frozen)
        inputs = check_new_run(settings)
    with use_device(settings.device), _executor(cluster, settings, console) as executor:
        if not existing:
            run_folder = RunFolder.create(folder, settings.model_dump())
        copies = _StorageCopier(copy, run_folder, console) if copy else None
        train_run(console, run_folder, settings, inputs, verbose, log, cluster, executor, copies)


class ClusterOptions(NamedTuple):
    """Options for a run on a Ray cluster."""

    address: str
    actors: int
    cores_per_actor: int

    def arguments(self) -> list[str]:
        """Return the options as on the command line."""
        arguments = ["--ray", self.address]
        arguments += ["--actors", str(self.actors)] if self.actors else []
        return arguments + (
            ["--cores-per-actor", str(self.cores_per_actor)] if self.cores_per_actor > 1 else []
        )


_MAX_COUNT = 100_000


def _cluster_options(address: str, actors: int, cores: int) -> ClusterOptions | None:
    """Return the options for a cluster, if any; raise UserError if they are invalid."""
    if not 0 <= actors <= _MAX_COUNT:
        raise UserError(f"--actors {actors}: expected 0 to {_MAX_COUNT}")
    if not 1 <= cores <= _MAX_COUNT:
        raise UserError(f"--cores-per-actor {cores}: expected 1 to {_MAX_COUNT}")
    if not address:
        if actors or cores > 1:
            raise UserError("--actors and --cores-per-actor need --ray, as in --ray local")
        return None
    import_module("zerolab.core.ray_cluster")  # raises MissingExtraError
    return ClusterOptions(address, actors, cores)


def _storage(uri: str, folder: Path, console: Console) -> RunStorage | None:
    """Return the storage of a run, if any, after fetching the run if its folder is missing."""
    if not uri:
        return None
    from zerolab.cli.progress import progress_bar
    from zerolab.store.storage import RunStorage

    storage = RunStorage(uri, folder)
    if storage.fetch(progress_bar):
        console.print(f"fetched {folder} from {storage.uri}")
    return storage


class _StorageCopier:
    """Copier of a run to its storage, after every iteration and at the end."""

    def __init__(self, storage: RunStorage, run: RunFolder, console: Console) -> None:
        self.uri = storage.uri
        self._storage, self._run, self._console = storage, run, console
        self._iteration = run.progress.iteration

    def on_record(self, _: Record) -> None:
        """Copy the run if an iteration has ended."""
        if self._iteration == self._run.progress.iteration:
            return
        self._iteration = self._run.progress.iteration
        try:
            self._storage.push()
        except UserError as error:  # the storage may be back after the next iteration
            self._console.print(f"not copied: {error}")

    def finish(self) -> None:
        """Copy the finished run; raise UserError if the storage cannot be written to."""
        self._storage.push()
        self._console.print(f"copied to {self.uri}")


def _warn_of_preset(settings: TrainSettings, preset: str) -> None:
    """Print a line for each setting in the user's own preset file that has no effect."""
    from zerolab.training.configure import no_effect_preset_messages

    for message in no_effect_preset_messages(settings, preset):
        print_lines(f"zerolab: {message}", error=True)


def _start_assignments(source: str | None, transfer: TransferOption | None) -> list[str]:
    """Return the settings equivalent to ``--from`` and ``--transfer``."""
    from zerolab.training.shorthands import start_assignments

    if source is None:
        if transfer is not None:
            raise UserError(f"--transfer {transfer} needs a network to start from: expected --from")
        return []
    if not source:
        raise UserError('--from "" is not a network: expected a run such as runs/demo@12')
    return start_assignments(source, transfer or "trunk")


def _default_folder(game: str | None, preset: str | None, source: str | None) -> Path:
    from zerolab.training.configure import resolve_settings

    # No programs are run here, so allowing them is safe.
    base = DEFAULT_PRESET if preset is None else preset
    settings = resolve_settings(game, base, allow_programs=True)
    origin = "" if source is None else f"-from-{Path(source).name.replace('@', '-')}"
    return Path("runs") / f"{settings.game.replace(':', '-')}-{settings.preset}{origin}"


def _resume(
    folder: Path,
    game: str | None,
    preset: str | None,
    assignments: Sequence[Assignment],
    allow_programs: bool,
) -> tuple[RunFolder, TrainSettings]:
    from zerolab.store.run_folder import RunFolder
    from zerolab.training.configure import resume_settings

    run = RunFolder.open(folder)
    changes: list[Assignment] = [*option_assignments(game, preset), *assignments]
    return run, resume_settings(run, changes, allow_programs=allow_programs)


def train_run(
    console: Console,
    run: RunFolder,
    settings: TrainSettings,
    inputs: RunInputs | None,
    verbose: bool,
    loggers: Sequence[str] = (),
    cluster: ClusterOptions | None = None,
    executor: Executor | None = None,
    copies: _StorageCopier | None = None,
) -> None:
    """Train a run to completion and show the progress; `inputs` is None for a resumed run."""
    from zerolab.agents.run_agents import run_spec
    from zerolab.cli.progress import (
        PlainReporter,
        TerminalReporter,
        finished_message,
        print_run_header,
    )
    from zerolab.training.reporting import RunClock
    from zerolab.training.trainer import Trainer

    print_run_header(console, run, settings, verbose)
    before = run.progress
    has_bar = console.is_terminal and not console.quiet
    reporter_type = TerminalReporter if has_bar else PlainReporter
    command = resume_command(run.path, settings, cluster, copies.uri if copies else "", loggers)
    with advise_resuming("finished stages are saved", command), run.locked():
        with reporter_type(console, RunClock.of_run(run, settings)) as reporter:
            Trainer(
                run, settings, reporter, copies.on_record if copies else lambda _: None,
                inputs=inputs, loggers=loggers, executor=executor,
            ).train()  # fmt: skip
        if copies:
            copies.finish()
    if before == run.progress:
        console.print(finished_message(run, settings))
    else:
        console.print(f"\ndone, with a peak memory of {peak_memory_mib()} MiB")
    console.print(f"play against it with: zerolab play {shlex.quote(run_spec(str(run.path)))}")


@contextmanager
def _executor(
    cluster: ClusterOptions | None, settings: TrainSettings, console: Console
) -> Iterator[Executor | None]:
    """Yield an executor on a cluster, or None for the threads of this process."""
    if cluster is None:
        yield None
        return
    from zerolab.play.engine import useful_thread_count
    from zerolab.play.ray_executor import RayExecutor
    from zerolab.play.selfplay_settings import unsplittable_mode_remarks

    for remark in unsplittable_mode_remarks(settings.selfplay):
        console.print(remark)
    where = "on this machine" if cluster.address == "local" else f"at {cluster.address}"
    console.print(f"joining the Ray cluster {where}")
    with RayExecutor(cluster.address, settings.game, *cluster[1:], console.print) as executor:
        play = settings.selfplay
        chunks = play.chunk_count or useful_thread_count(play.threads, play.parallel_games, True)
        if chunks < (places := executor.parallel_chunk_count):
            console.print(
                f"selfplay.chunks = {chunks} keeps only {chunks} of the cluster's {places} cores"
                f" or GPUs busy: consider --set selfplay.chunks={2 * places}"
            )
        yield executor


def resume_command(
    folder: Path,
    settings: TrainSettings,
    cluster: ClusterOptions | None = None,
    storage: str = "",
    loggers: Sequence[str] = (),
) -> str:
    """Return the command that resumes a run, allowing programs if the run uses any."""
    options = ["--allow-programs"] if settings.opponent_programs else []
    options += cluster.arguments() if cluster else []
    options += ["--storage", storage] if storage else []
    options += [word for name in loggers for word in ("--log", name)]
    return shlex.join(["zerolab", "train", "--run", str(folder), *options])


_PRESET = "supervised"


def fit(
    positions: tyro.conf.Positional[Path],
    *,
    preset: str = _PRESET,
    run: Path | None = None,
    set: Assignments = (),
    verbose: bool = False,
    quiet: bool = False,
    allow_programs: bool = False,
) -> None:
    """Train a network on solved positions instead of self-play.

    The network learns best moves and results from the positions of 80 % of the games in the file.
    An iteration is one pass over these positions. The network is measured on 10 % of the games
    after every iteration, and on the remaining 10 % at the end. The result is an ordinary run that
    you can play against, evaluate and compare. Repeat the command to resume it.

    Examples:
      zerolab fit connect_four-6x7-200000.parquet --run runs/ceiling
      zerolab fit positions.parquet --set network.blocks=10 --set seed=1
      zerolab fit positions.parquet --set 'published_bugs=["losses_as_draws"]'

    Presets:
      {presets}

    Args:
        positions: File written by zerolab dataset.
        preset: Preset name or .toml file to start from; supervised by default.
        run: Run folder; runs/FILE-PRESET by default.
        set: Setting to change, such as network.filters=64; can be repeated.
        verbose: Print all settings before the summary.
        quiet: Print neither settings nor progress.
        allow_programs: Allow running programs listed as baselines in a resumed run or preset file,
            in addition to those named in --set.
    """
    from zerolab.cli.output import Console
    from zerolab.store.run_folder import RunFolder, is_run
    from zerolab.training.configure import require_effects, resolve_settings
    from zerolab.training.trainer import check_new_run
    from zerolab.training.window_facts import solved_file_settings

    assignments: list[Assignment] = [*solved_file_settings(positions).items(), *set]
    folder = run or Path("runs") / f"{positions.stem}-{preset_name(preset)}"
    console = Console(quiet=quiet)
    if is_run(folder):
        run_folder, settings = _resume(folder, None, preset, assignments, allow_programs)
        inputs = None
    else:
        settings = resolve_settings(None, preset, assignments, allow_programs=allow_programs)
        require_effects(settings, set)
        _warn_of_preset(settings, preset)
        inputs = check_new_run(settings)
        run_folder = RunFolder.create(folder, settings.model_dump())
    train_run(console, run_folder, settings, inputs, verbose)
