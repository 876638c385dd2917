"""Summary of a run's settings and progress, printed before training."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from zerolab.core.config import Settings, VariantSettings

if TYPE_CHECKING:
    from zerolab.cli.output import Console
    from zerolab.store.run_folder import RunFolder
    from zerolab.training.train_settings import TrainSettings


def print_run_header(
    console: Console, run: RunFolder, settings: TrainSettings, verbose: bool
) -> None:
    """Print the main settings of a run, and its progress; all settings if `verbose`."""
    from zerolab.cli.width import wrapped
    from zerolab.store.state import RunProgress

    if verbose:
        import tomli_w

        console.print(tomli_w.dumps(settings.model_dump()))
    lines = summary_lines(settings)
    width = max(map(len, lines))
    for title, text in lines.items():
        line = f"{title:{width}}  {text}"
        console.print(wrapped(line, None if console.soft_wrap else console.width, width + 2))
    progress = run.progress
    resumed = f"resumed at iteration {progress.iteration}, {progress.stage}"
    state = "new run" if progress == RunProgress() else resumed
    if not verbose:
        console.print(f"all settings: --verbose, or {run.path / 'config.toml'}")
    if not progress.finished or settings.iterations >= progress.iteration:
        console.print(f"{run.path}: {state}\n")


def finished_message(run: RunFolder, settings: TrainSettings) -> str:
    """Return the message for a run without work left, with the way to continue it."""
    done = run.progress.iteration - 1
    message = f"{run.path}: already finished after {done} iteration{'s' * (done != 1)}"
    if done < settings.iterations:
        return f'{message} of {settings.iterations}, by stop = "{settings.stop.name}"'
    if settings.learn.schedule.spans_run:
        return f'{message}, which learn.schedule = "{settings.learn.schedule.name}" spans'
    command = shlex.join(["zerolab", "train", "--run", str(run.path)])
    return f"{message}; train further with {command} --set iterations=N"


def summary_lines(settings: TrainSettings) -> dict[str, str]:
    """Return the main settings of a run as text, by title."""
    heads = ", ".join(head.name for head in settings.network.heads)
    lines = {
        "game": settings.game,
        "preset": f"{settings.preset or 'none'}, seed {settings.seed}",
        "network": f"{_described(settings.network)}; heads {heads}",
    }
    if settings.start is not None:
        lines["start"] = f"{settings.start.source}, transfer {settings.start.transfer}"
    if settings.supervised.positions:
        lines["positions"] = settings.supervised.positions
    else:
        search = settings.search
        lines["search"] = (
            f"{search.simulations} simulations per move, {_described(search.selection)}"
        )
        lines["self-play"] = _self_play(settings)
    lines["iterations"] = str(settings.iterations)
    return lines


def _self_play(settings: TrainSettings) -> str:
    play = settings.selfplay
    if play.mode.name == "continuous":
        positions = play.mode.plies * play.parallel_games
        text = f"{positions:,} positions per iteration, in {play.parallel_games:,} games at once"
    else:
        text = f"{play.episodes:,} games per iteration, {_described(play.mode)}"
    return text if settings.league is None else f"{text}, in a league"


def _described(variant: VariantSettings) -> str:
    """Return the name of a variant and its values, such as ``puct (c 0.6)``."""
    values = [
        f"{name} {value}"
        for name, value in variant
        if name != "name" and value is not None and not isinstance(value, tuple | Settings)
    ]
    return f"{variant.name} ({', '.join(values)})" if values else variant.name
