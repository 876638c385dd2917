"""`zerolab train` and `zerolab fit`: training from games or from solved positions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from zerolab.cli.parse import Assignments
from zerolab.cli.process import resumable
from zerolab.core.errors import UserError
from zerolab.core.processes import peak_memory
from zerolab.training.preset_files import preset_name
from zerolab.training.start_options import TransferOption

if TYPE_CHECKING:
    from zerolab.cli.output import Console
    from zerolab.store.run_folder import RunFolder
    from zerolab.training.inputs import RunInputs
    from zerolab.training.settings import TrainSettings


DEFAULT_PRESET = "mini"


def train(
    game: tyro.conf.Positional[str | None] = None,
    *,
    preset: str | None = None,
    run: Path | None = None,
    from_: Annotated[str | None, tyro.conf.arg(name="from", metavar="RUN[@N]")] = None,
    transfer: TransferOption | None = None,
    set: Assignments = (),
    allow_programs: bool = False,
) -> None:
    """Train an agent, or resume a run that was stopped.

    Every finished stage is saved. A run that was killed or stopped is resumed by naming it again,
    and ends as if it had never been stopped. TensorBoard can watch it from the start.

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
        game: What to learn, such as othello:6x6; the preset's own game by default.
        preset: The settings to start from, or a file that ends in .toml; mini by default.
        run: The folder of the run, runs/GAME-PRESET by default.
        from_: A network to start from, of another run; its architecture is taken, too. By default,
            a run starts untrained.
        transfer: What is taken of it: its trunk (the default), which is kept as it is where it is
            frozen; its heads; all weights; or all, with channels matched by what they mean
            (docs/transfer.md).
        set: A setting to change, such as learn.epochs=5; may be repeated.
        allow_programs: Run the programs that the run resumed, or a preset's file, names among its
            baselines. Without it only those are run that --set names: a file may be a stranger's.
    """
    from zerolab.cli.output import Console
    from zerolab.store.run_folder import RunFolder, is_run
    from zerolab.training.configure import require_effects, resolve_settings
    from zerolab.training.start_options import require_frozen
    from zerolab.training.trainer import check_new_run

    set = (*_starting(from_, transfer), *set)
    folder = run or _default_folder(game, preset, from_)
    console = Console()
    if is_run(folder):
        opened, settings = _resume(folder, game, preset, set, allow_programs)
        inputs = None
        require_frozen(transfer, settings.learn.frozen)
    else:
        settings = resolve_settings(
            game, preset or DEFAULT_PRESET, set, allow_programs=allow_programs
        )
        require_effects(settings, set)
        require_frozen(transfer, settings.learn.frozen)
        inputs = check_new_run(settings)
        opened = RunFolder.create(folder, settings.model_dump())
    introduce(console, opened, settings)
    train_run(console, opened, settings, inputs)


def _starting(source: str | None, transfer: TransferOption | None) -> list[str]:
    """Return the settings that ``--from`` and ``--transfer`` stand for."""
    from zerolab.training.start_options import start_assignments

    if source is None:
        if transfer is not None:
            raise UserError(f"--transfer {transfer} needs a network to start from: expected --from")
        return []
    if not source:
        raise UserError('--from "" names no network: expected a run such as runs/demo@12')
    return start_assignments(source, transfer or "trunk")


def _default_folder(game: str | None, preset: str | None, source: str | None) -> Path:
    from zerolab.training.configure import resolve_settings

    settings = resolve_settings(
        game, preset or DEFAULT_PRESET, allow_programs=True
    )  # none is run here
    origin = "" if source is None else f"-from-{Path(source).name.replace('@', '-')}"
    return Path("runs") / f"{settings.game.replace(':', '-')}-{settings.preset}{origin}"


def _resume(
    folder: Path,
    game: str | None,
    preset: str | None,
    assignments: Sequence[str],
    allow_programs: bool,
) -> tuple[RunFolder, TrainSettings]:
    from zerolab.store.run_folder import RunFolder
    from zerolab.training.configure import amend_settings

    opened = RunFolder.open(folder)
    options = {"game": game, "preset": preset and preset_name(preset)}
    repeated = [f"{key}={value}" for key, value in options.items() if value]
    changes = [*repeated, *assignments]
    return opened, amend_settings(opened, changes, allow_programs=allow_programs)


def introduce(console: Console, run: RunFolder, settings: TrainSettings) -> None:
    """Print the settings and the progress of a run."""
    import tomli_w

    from zerolab.store.state import RunProgress

    console.print(tomli_w.dumps(settings.model_dump()))
    progress = run.progress
    resumed = f"resumed at iteration {progress.iteration}, {progress.stage}"
    state = "new run" if progress == RunProgress() else resumed
    console.print(f"{run.path}: {state}\n")


def train_run(
    console: Console, run: RunFolder, settings: TrainSettings, inputs: RunInputs | None
) -> None:
    """Train a run to its end, and show its progress; `inputs` are those of a new run."""
    from zerolab.cli.progress import PlainReporter, TerminalReporter
    from zerolab.training.trainer import Trainer

    kind = TerminalReporter if console.is_terminal else PlainReporter
    with (
        resumable("finished stages are saved", resuming(run.path, settings)),
        run.locked(),
        kind(console, settings.iterations) as reporter,
    ):
        Trainer(run, settings, reporter, inputs=inputs).train()
    console.print(f"\ndone, with {peak_memory()} MiB of memory at the peak")
    console.print(f"play against it with: zerolab play {shlex.quote(str(run.path))}")


def resuming(folder: Path, settings: TrainSettings) -> str:
    """Return the command that resumes a run; it allows the programs named by the run."""
    from zerolab.training.configure import programs

    allowance = ["--allow-programs"] if programs(settings) else []
    return shlex.join(["zerolab", "train", "--run", str(folder), *allowance])


_PRESET = "supervised"


def fit(
    positions: tyro.conf.Positional[Path],
    *,
    preset: str = _PRESET,
    run: Path | None = None,
    set: Assignments = (),
    allow_programs: bool = False,
) -> None:
    """Train a network on solved positions instead of self-play.

    It learns the best moves and the results of 80 % of a file's games. Another 10 % measure it
    after every iteration, which is a pass over the positions, and the last 10 % at the end. What is
    made is a run like any other, to be played, evaluated and compared; to resume one, repeat the
    command.

    Examples:
      zerolab fit connect_four-6x7-200000.parquet --run runs/ceiling
      zerolab fit positions.parquet --set network.blocks=10 --set seed=1
      zerolab fit positions.parquet --set 'published_bugs=["losses_as_draws"]'

    Presets:
      {presets}

    Args:
        positions: A file that zerolab dataset has written.
        preset: The settings to start from, or a file that ends in .toml; supervised by default.
        run: The folder of the run, runs/FILE-PRESET by default.
        set: A setting to change, such as network.filters=64; may be repeated.
        allow_programs: Run the programs that the run resumed, or a preset's file, names among its
            baselines, not only those that --set names.
    """
    from zerolab.cli.output import Console
    from zerolab.core.config import Assignment
    from zerolab.store.run_folder import RunFolder, is_run
    from zerolab.training.configure import (
        amend_settings,
        require_effects,
        resolve_settings,
    )
    from zerolab.training.facts import file_settings
    from zerolab.training.preset_files import preset_name
    from zerolab.training.trainer import check_new_run

    asked: list[Assignment] = [*file_settings(positions).items(), *set]
    folder = run or Path("runs") / f"{positions.stem}-{preset_name(preset)}"
    console = Console()
    if is_run(folder):
        opened = RunFolder.open(folder)
        changes: list[Assignment] = [f"preset={preset_name(preset)}", *asked]
        settings = amend_settings(opened, changes, allow_programs=allow_programs)
        inputs = None
    else:
        settings = resolve_settings(None, preset, asked, allow_programs=allow_programs)
        require_effects(settings, set)
        inputs = check_new_run(settings)
        opened = RunFolder.create(folder, settings.model_dump())
    introduce(console, opened, settings)
    train_run(console, opened, settings, inputs)
