"""`zerolab train`: start a run or resume one."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from pathlib import Path

import tomli_w
import tyro
from rich.console import Console

from zerolab.cli.parse import Assignments, call
from zerolab.cli.progress import PlainReporter, TerminalReporter
from zerolab.cli.stopping import stoppable
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.store.state import RunProgress
from zerolab.training.configure import amend, resolve
from zerolab.training.presets import preset_name
from zerolab.training.settings import TrainSettings
from zerolab.training.trainer import Trainer, check_inputs

DEFAULT_PRESET = "mini"

_MAXRSS_UNITS_IN_MIB = 1 << 20 if sys.platform == "darwin" else 1 << 10


def train(
    game: tyro.conf.Positional[str | None] = None,
    *,
    preset: str | None = None,
    run: Path | None = None,
    set: Assignments = (),
) -> None:
    """Train an agent from scratch, or resume a run that was stopped.

    Every finished stage is saved. A run that was killed or stopped is resumed by naming it again,
    and ends as if it had never been stopped. TensorBoard can watch it from the start.

    Examples:
      zerolab train connect_four:6x7 --preset mini --run runs/demo
      zerolab train othello:6x6 --preset small --set search.simulations=50 --set seed=3
      zerolab train gobang:6x6 --set warm_start.variant=wrora --run runs/warm
      zerolab train --run runs/demo
      zerolab train --run runs/demo --set iterations=40

    Args:
        game: What to learn, such as othello:6x6; the preset's own game by default.
        preset: The settings to start from, mini by default: a name that `zerolab settings` lists,
            or a file that ends in .toml.
        run: The folder of the run, runs/GAME-PRESET by default.
        set: A setting to change, such as learn.epochs=5; may be repeated.
    """
    folder = run or _default_folder(game, preset)
    console = Console()
    if is_run(folder):
        opened, settings = _resume(folder, game, preset, set)
    else:
        settings = resolve(game, preset or DEFAULT_PRESET, set)
        check_inputs(settings)  # before there is a run
        opened = RunFolder.create(folder, settings.model_dump())
    _introduce(console, opened, settings)
    _train(console, opened, settings)


def _default_folder(game: str | None, preset: str | None) -> Path:
    settings = resolve(game, preset or DEFAULT_PRESET)
    return Path("runs") / f"{settings.game.replace(':', '-')}-{settings.preset}"


def _resume(
    folder: Path, game: str | None, preset: str | None, assignments: Sequence[str]
) -> tuple[RunFolder, TrainSettings]:
    opened = RunFolder.open(folder)
    asked = {"game": game, "preset": preset and preset_name(preset)}
    repeated = [f"{key}={value}" for key, value in asked.items() if value]
    return opened, amend(opened, [*repeated, *assignments])


def _introduce(console: Console, run: RunFolder, settings: TrainSettings) -> None:
    console.print(tomli_w.dumps(settings.model_dump()), markup=False, highlight=False)
    progress = run.progress
    resumed = f"resumed at iteration {progress.iteration}, {progress.stage}"
    state = "new run" if progress == RunProgress() else resumed
    console.print(f"{run.path}: {state}\n", markup=False, highlight=False)


def _train(console: Console, run: RunFolder, settings: TrainSettings) -> None:
    kind = TerminalReporter if console.is_terminal else PlainReporter
    again = f"zerolab train --run {run.path}"
    with (
        stoppable("finished stages are saved", again),
        run.locked(),
        kind(console, settings.iterations) as reporter,
    ):
        Trainer(run, settings, reporter).train()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _MAXRSS_UNITS_IN_MIB
    console.print(f"\ndone, with {peak} MiB of memory at the peak", highlight=False)
    console.print(f"play against it with: zerolab play {run.path}", highlight=False)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and train."""
    call(train, "train", arguments)
