"""`zerolab fit`: learn from solved positions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tyro

from zerolab.cli.parse import Assignments, call

_PRESET = "supervised"


def fit(
    positions: tyro.conf.Positional[Path],
    *,
    preset: str = _PRESET,
    run: Path | None = None,
    set: Assignments = (),
    allow_programs: bool = False,
) -> None:
    """Train a network on solved positions instead of games of its own.

    It learns the best moves and the results of 80 % of a file's games. Another 10 % measure it
    after every iteration, which is a pass over the positions, and the last 10 % at the end. What is
    made is a run like any other, to be played, evaluated and compared; to resume one, repeat the
    command.

    Examples:
      zerolab fit connect_four-6x7-200000.parquet --run runs/ceiling
      zerolab fit positions.parquet --set network.blocks=10 --set seed=1
      zerolab fit positions.parquet --set 'defects=["losses_as_draws"]'

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
    from zerolab.cli.train import introduce, train_run
    from zerolab.store.run_folder import RunFolder, is_run
    from zerolab.training.configure import amend, as_assignments, resolve
    from zerolab.training.effects import require_effects
    from zerolab.training.presets import preset_name
    from zerolab.training.supervised.labels import file_settings
    from zerolab.training.trainer import check_inputs

    asked = [*as_assignments(file_settings(positions)), *set]
    folder = run or Path("runs") / f"{positions.stem}-{preset_name(preset)}"
    console = Console()
    if is_run(folder):
        opened = RunFolder.open(folder)
        changes = [f"preset={preset_name(preset)}", *asked]
        settings = amend(opened, changes, allow_programs=allow_programs)
    else:
        settings = resolve(None, preset, asked, allow_programs=allow_programs)
        require_effects(settings, set)
        check_inputs(settings)  # before there is a run
        opened = RunFolder.create(folder, settings.model_dump())
    introduce(console, opened, settings)
    train_run(console, opened, settings)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and train."""
    call(fit, "fit", arguments)
