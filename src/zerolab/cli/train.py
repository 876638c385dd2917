"""`zerolab train` and `zerolab fit`: training from games or from solved positions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from zerolab.cli.output import say
from zerolab.cli.parse import Assignments
from zerolab.cli.process import resume_advice
from zerolab.core.errors import UserError
from zerolab.core.resources import peak_memory
from zerolab.training.shorthands import TransferOption, preset_name

if TYPE_CHECKING:
    from zerolab.cli.output import Console
    from zerolab.core.nested_tables import Assignment
    from zerolab.store.run_folder import RunFolder
    from zerolab.training.inputs import RunInputs
    from zerolab.training.train_settings import TrainSettings


DEFAULT_PRESET = "mini"

Loggers = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")]


def train(
    game: tyro.conf.Positional[str | None] = None,
    *,
    preset: str | None = None,
    run: Path | None = None,
    from_: Annotated[str | None, tyro.conf.arg(name="from", metavar="RUN[@N]")] = None,
    transfer: TransferOption | None = None,
    set: Assignments = (),
    log: Loggers = (),
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
      zerolab train gobang:6x6 --set warm_start.variant=wrora --run runs/warm
      zerolab train connect_four:6x7 --from runs/othello@40 --transfer trunk
      zerolab train --run runs/demo
      zerolab train --run runs/demo --set iterations=40

    Presets:
      {presets}

    Args:
        game: Game to learn, such as othello:6x6; the preset's game by default.
        preset: Preset name or .toml file to start from; mini by default.
        run: Run folder; runs/GAME-PRESET by default.
        from_: Network of another run to start from; the architecture of that network is also used.
            By default, training starts from an untrained network.
        transfer: Weights to copy from that network: the trunk (the default), the trunk frozen
            during training, the heads, all weights, or all weights with channels matched by
            meaning (docs/transfer.md).
        set: Setting to change, such as learn.epochs=5; can be repeated.
        log: Program that also receives the numbers of all stages: trackio, wandb or mlflow, on this
            machine; can be repeated. The log of tensorboard is always written if it is installed.
        verbose: Print all settings instead of a summary.
        quiet: Print neither settings nor progress.
        allow_programs: Allow running programs listed as baselines in a resumed run or preset file.
            Without this option, only programs named in --set are run, because files can be
            untrusted.
    """
    from zerolab.cli.output import Console
    from zerolab.store.run_folder import RunFolder, is_run
    from zerolab.training.configure import require_effects, resolve_settings
    from zerolab.training.logger import require_loggers
    from zerolab.training.shorthands import require_frozen_trunk
    from zerolab.training.trainer import check_new_run

    require_loggers(log)
    set = (*_start_assignments(from_, transfer), *set)
    folder = run or _default_folder(game, preset, from_)
    console = Console(quiet=quiet)
    if is_run(folder):
        run_folder, settings = _resume(folder, game, preset, set, allow_programs)
        inputs = None
        require_frozen_trunk(transfer, settings.learn.frozen)
    else:
        settings = resolve_settings(
            game, preset or DEFAULT_PRESET, set, allow_programs=allow_programs
        )
        require_effects(settings, set)
        _warn_of_preset(settings, preset or DEFAULT_PRESET)
        require_frozen_trunk(transfer, settings.learn.frozen)
        inputs = check_new_run(settings)
        run_folder = RunFolder.create(folder, settings.model_dump())
    train_run(console, run_folder, settings, inputs, verbose, log)


def _warn_of_preset(settings: TrainSettings, preset: str) -> None:
    """Print a line for each setting without effect in the user's own preset file."""
    from zerolab.training.configure import ineffective_preset_settings

    for message in ineffective_preset_settings(settings, preset):
        say(f"zerolab: {message}", error=True)


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

    # No program is run here, so allowing them is safe.
    settings = resolve_settings(game, preset or DEFAULT_PRESET, allow_programs=True)
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
    from zerolab.training.configure import amend_settings

    run = RunFolder.open(folder)
    options = {"game": game, "preset": preset and preset_name(preset)}
    named = (f"{key}={value}" for key, value in options.items() if value)
    changes: list[Assignment] = [*named, *assignments]
    return run, amend_settings(run, changes, allow_programs=allow_programs)


def train_run(
    console: Console,
    run: RunFolder,
    settings: TrainSettings,
    inputs: RunInputs | None,
    verbose: bool,
    loggers: Sequence[str] = (),
) -> None:
    """Train a run to completion and show the progress; `inputs` is None for a resumed run."""
    from zerolab.cli.progress import (
        PlainReporter,
        TerminalReporter,
        finished_message,
        print_run_header,
    )
    from zerolab.training.trainer import Trainer

    print_run_header(console, run, settings, verbose)
    before = run.progress
    has_bar = console.is_terminal and not console.quiet
    reporter_type = TerminalReporter if has_bar else PlainReporter
    with (
        resume_advice("finished stages are saved", resume_command(run.path, settings)),
        run.locked(),
        reporter_type(console, settings.iterations) as reporter,
    ):
        Trainer(run, settings, reporter, inputs=inputs, loggers=loggers).train()
    if before == run.progress:
        console.print(finished_message(run, settings))
    else:
        console.print(f"\ndone, with a peak memory of {peak_memory()} MiB")
    console.print(f"play against it with: zerolab play {shlex.quote(str(run.path))}")


def resume_command(folder: Path, settings: TrainSettings) -> str:
    """Return the command that resumes a run, allowing programs if the run uses any."""
    from zerolab.training.configure import opponent_programs

    option = ["--allow-programs"] if opponent_programs(settings) else []
    return shlex.join(["zerolab", "train", "--run", str(folder), *option])


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
        verbose: Print all settings instead of a summary.
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
