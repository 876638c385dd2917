"""The benchmark: train every variant with every seed, measure, report; stopped, it is resumed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from zerolab.bench.strength import report
from zerolab.bench.strength.measuring import Measured, Measurements, measure, search_at_test
from zerolab.bench.strength.settings import StrengthSettings
from zerolab.bench.strength.training import checkpoints, run_settings, spaced, train
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.core.figures import save_figure
from zerolab.core.files import write_text
from zerolab.core.threads import available_cores
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import CollectionProgress, make_dataset
from zerolab.evaluation.positions import Positions, read_positions
from zerolab.play.engine import Progress
from zerolab.rules.catalogue import parse_game
from zerolab.store.folder import FolderKind
from zerolab.store.run_folder import RunFolder
from zerolab.studies.report.markdown import titled_table
from zerolab.training.reporting import Reporter

FOLDER = FolderKind("benchmark", "strength.toml", "--folder")

_MAY_GROW = ("variants", "seeds", "hours")
_POSITIONS_SEED = 1


class Watcher(NamedTuple):
    """Who shows the progress."""

    message: Callable[[str], None]
    """Shows a line."""
    training: Callable[[], AbstractContextManager[Reporter]]
    """Makes what shows a run's training."""
    progress: Callable[[str, int, str], AbstractContextManager[Progress]]
    """Makes a progress bar from a title, a total and a unit."""


def run(
    folder: Path, settings: StrengthSettings, watcher: Watcher
) -> dict[str, list[report.Point]]:
    """Run the benchmark in its folder and write table and figure there; return the points.

    More variants, seeds and hours may be asked for later. Raises UserError if the folder holds
    something else or other settings, and for settings that do not fit each other.
    """
    for variant in settings.variants:  # mistakes are found before positions are solved
        search_at_test(run_settings(variant, 0, settings).search, settings)
    with FOLDER.locked(folder):
        _keep_settings(folder, settings)
        positions = _positions(folder, settings, watcher)
        measurements = Measurements(folder / "accuracy.jsonl")
        for seed in range(settings.seeds):
            for variant in settings.variants:
                path = folder / "runs" / f"{variant}-{seed}"
                watcher.message(f"{variant}, seed {seed}: {settings.hours:g} h")
                with watcher.training() as reporter:
                    train(path, variant, seed, settings, reporter)
                _measure(path, variant, seed, settings, positions, measurements, watcher)
        found = report.curves(measurements.all, settings)
        _write(folder, found, settings)
    return found


def _keep_settings(folder: Path, settings: StrengthSettings) -> None:
    if FOLDER.is_in(folder):
        saved = FOLDER.read_settings(folder)
        former = validate(StrengthSettings, saved, source=str(folder / FOLDER.settings_file))
        FOLDER.require_equal(
            folder, former.model_dump(mode="json"), settings.model_dump(mode="json"),
            except_for=_MAY_GROW,
        )  # fmt: skip
        if settings.hours < former.hours:
            raise UserError(f"hours = {settings.hours:g}: {folder} has {former.hours:g} already")
    FOLDER.write_settings(folder, settings.model_dump(mode="json"))


def _positions(folder: Path, settings: StrengthSettings, watcher: Watcher) -> Positions:
    """Return the solved positions, which are made on the first call."""
    game, path = parse_game(settings.game), folder / "positions.parquet"
    if not path.exists():
        wanted = DatasetSettings(seed=_POSITIONS_SEED, perfect=0.5, one_per_game=True)
        title = f"solving {settings.game}"
        with watcher.progress(title, settings.positions, "positions") as update:

            def show(done: CollectionProgress) -> None:
                update(done.positions, "")

            make_dataset(game, settings.positions, wanted, path, available_cores(), show)
    positions, _ = read_positions(path, game)
    return positions


def _measure(
    path: Path,
    variant: str,
    seed: int,
    settings: StrengthSettings,
    positions: Positions,
    measurements: Measurements,
    watcher: Watcher,
) -> None:
    run = RunFolder.open(path)
    for checkpoint in spaced(checkpoints(run), settings.every, settings.hours):
        if measurements.has(variant, seed, checkpoint.network):
            continue
        title = f"measuring {variant}-{seed}@{checkpoint.network}"
        with watcher.progress(title, len(positions), "positions") as update:
            shares = measure(run, checkpoint, positions, settings, update)
        fields = {"variant": variant, "seed": seed, **checkpoint._asdict(), **shares}
        measured = Measured.model_validate(fields)
        measurements.add(measured)
        watcher.message(
            f"{variant}-{seed}, {checkpoint.hours:.2f} h: {measured.strong.mean:.1%} strong,"
            f" {measured.weak.mean:.1%} weak, network alone {measured.network_strong.mean:.1%}"
        )


def _write(folder: Path, found: dict[str, list[report.Point]], settings: StrengthSettings) -> None:
    figure = report.draw(found, settings)
    for ending in ("png", "svg"):
        save_figure(figure, folder / f"strength.{ending}")
    text = titled_table(report.table(found, settings))
    write_text(folder / "strength.md", f"{text}\n\n![Accuracy over hours](strength.png)\n")
