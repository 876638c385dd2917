"""Victims of attacks: folders of every kind that zerolab writes, with commands that read them.

Small victims are created once in the campaign folder. Attempts use copies.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from campaigns.watch import Command, Ended, Launcher, Shell, watched

GAME = "gobang:3x3:3"

_Words = tuple[str, ...]
_LONGEST = 600.0  # maximum seconds of undisturbed commands, including compilation


class Victim(NamedTuple):
    """Kind of folder to attack. Commands run in the parent folder of the target."""

    name: str
    target: str
    """File or folder to attack."""
    make: _Words
    """Command that creates the target, or resumes creating it."""
    read: tuple[_Words, ...]
    """Commands that read the target."""
    needs: tuple[str, ...] = ()
    """Names of other victims whose targets the commands use."""
    finish: Callable[[Path], None] | None = None
    """Function that makes further changes without zerolab, after `make`."""
    environment: tuple[tuple[str, str], ...] = ()
    is_resumable: bool = True
    is_cache: bool = False
    """True if the content depends on the process, so that forks cannot be used."""
    weight: int = 2
    """Relative frequency, which is lower for slow victims."""


def _words(text: str) -> _Words:
    return tuple(text.split())


def _reads(*texts: str) -> tuple[_Words, ...]:
    return tuple(map(_words, texts))


def _of_run(name: str) -> tuple[_Words, ...]:
    """Return the commands that read a run."""
    return _reads(
        f"runs {name}", "runs . --json", f"train --run {name}",
        f"train --run {name} --set iterations=3", f"plot {name}", f"tensorboard {name}",
        f"cost {name}", f"diversity {name}", f"rate {name}", f"evaluate {name} --games 2",
        f"match {name} random --games 2", f"gtp {name}", f"play {name}?simulations=4",
        f"export {name} network.zerolab", f"export {name}@1 network.onnx",
        f"tournament {name} {name}@0 random --games 2 --folder played",
        f"train --preset smoke --from {name} --run other --set iterations=1",
        f"cost {name} --measure --plies 1 --reference machine.json",
        f"league {GAME} --agent {name} --games 4 --set active=6 --set parents=2 --out bred",
    )  # fmt: skip


_TRAIN = f"train {GAME} --preset smoke --set final_evaluation.games=2"
_STUDY = "--scale smoke --folder studies"
_BRED = "--set active=6 --set parents=2 --set generation=10 --set search.simulations=8"
_EVERYTHING = """--set accuracy.positions=p.parquet --set accuracy.every=1 --set learn.ema_decay=0.5
 --set learn.symmetries=none
 --set selfplay.mode=continuous --set selfplay.mode.plies=6
 --set selfplay.parallel_games=4 --set start.source=source --set start.transfer=trunk
 --set network.heads=['policy','value',{name='features',source='source',weight=1}]"""
_RESNET = "--set network={name='resnet',blocks=1,filters=8} --set iterations=1"
_LEAGUE = """--set league.parameters=["check"] --set league.active=6 --set league.parents=2
 --set league.generation=8 --set selfplay.episodes=6"""


def _keep_games(folder: Path) -> None:
    shutil.copy(folder / "trained" / "games.sqlite", folder / "games.sqlite")


def _write_pgn(folder: Path) -> None:
    """Write games of three players that include wins, losses and draws for each of them."""
    results = ("1-0", "0-1", "1/2-1/2")
    pairs = [(a, b) for a in "abc" for b in "abc" if a != b]
    games = [
        f'[White "{white}"]\n[Black "{black}"]\n[Result "{result}"]\n\n{result}\n'
        for white, black in pairs
        for result in results
    ]
    (folder / "games.pgn").write_text("\n".join(games))


VICTIMS = {
    each.name: each
    for each in (
        Victim("dataset", "p.parquet", _words(f"dataset {GAME} --positions 60 --out p.parquet"), (
            *_reads(
                f"dataset {GAME} --positions 60 --out p.parquet --processes 2",
                "fit p.parquet --preset smoke --run other", "fit p.parquet --run other",
                "evaluate random --positions p.parquet", "evaluate mcts:9 --positions p.parquet",
                f"{_TRAIN} --run other --set accuracy.positions=p.parquet --set accuracy.every=1",
                f"tune {GAME} --preset smoke --positions p.parquet --trials 1 --set iterations=1"
                " --set learn.epochs=1..2",
            ),
        ), weight=4),
        Victim("run", "trained", _words(f"{_TRAIN} --run trained"), _of_run("trained"),
               ("dataset",), weight=6),
        Victim("source", "source", _words(f"{_TRAIN} --run source {_RESNET}"), _of_run("source"),
               ("dataset",), weight=1),
        Victim("everything", "whole", _words(f"{_TRAIN} --run whole {_EVERYTHING}"),
               _of_run("whole"), ("dataset", "source"), weight=3),
        Victim("continuous", "lanes", _words(
            f"{_TRAIN} --run lanes --set selfplay.mode=continuous"
            " --set selfplay.mode.plies=10 --set selfplay.parallel_games=4"
        ), _of_run("lanes"), ("dataset",)),
        Victim("service", "served", _words(
            f"{_TRAIN} --run served --set selfplay.mode=service --set selfplay.parallel_games=4"
        ), _of_run("served"), ("dataset",)),
        Victim("league-run", "mates", _words(f"{_TRAIN} --run mates {_LEAGUE}"), _of_run("mates"),
               ("dataset",)),
        Victim("fitted", "fitted", _words("fit p.parquet --preset smoke --run fitted"), (
            ("fit", "p.parquet", "--preset", "smoke", "--run", "fitted"), *_of_run("fitted"),
        ), ("dataset",)),
        Victim("tournament", "played", _words(
            "tournament trained@0 trained random --games 4 --openings 2 --folder played"
        ), _reads(
            "tournament --folder played", "tournament --folder played --json", "rate played",
            "tournament mcts:4 --folder played", "rate played/games.sqlite --figure r.png",
        ), ("run",), weight=4),
        Victim("league", "bred", _words(f"league {GAME} --games 30 {_BRED} --out bred"), _reads(
            f"league {GAME} --games 30 {_BRED} --out bred",
            f"league {GAME} --games 40 {_BRED} --out bred", "rate bred",
            f"train {GAME} --preset bred/best.toml --run other --set iterations=1"
            " --set selfplay.episodes=2 --set gate.games=2 --set network.channels=8",
        ), weight=3),
        Victim("tuning", "tuning", _words(
            f"tune {GAME} --preset smoke --objective loss --set learn.epochs=1..3 --trials 2"
        ), _reads(
            f"tune {GAME} --preset smoke --objective loss --set learn.epochs=1..3 --trials 2",
            f"tune {GAME} --preset smoke --objective loss --set learn.epochs=1..3 --trials 3",
            "runs tuning/runs", f"train {GAME} --preset tuning/best.toml --run other",
            "cost tuning/runs/0000 tuning/runs/0001",
        ), weight=3),
        Victim("study", "studies", _words(f"study table-5.1 {_STUDY} --workers 2"), _reads(
            f"study table-5.1 {_STUDY}", f"study table-5.1 {_STUDY} --status",
            f"report table-5.1 {_STUDY}", f"study table-5.1 {_STUDY} --json",
            "rate studies/table-5.1-smoke/tournaments/othello",
        )),
        Victim("study-of-runs", "studies", _words(f"study warm-start {_STUDY} --workers 2"), _reads(
            f"study warm-start {_STUDY} --workers 2", f"study warm-start {_STUDY} --status",
            f"report warm-start {_STUDY}", "runs studies/runs",
        ), weight=1),
        Victim("agent", "agent.zerolab", _words("export trained agent.zerolab"), _reads(
            "match agent.zerolab random --games 2", "gtp agent.zerolab", "play agent.zerolab",
            "evaluate agent.zerolab --games 2", "export agent.zerolab other.onnx",
            "tournament agent.zerolab random --games 2 --folder played",
        ), ("run",), is_resumable=False, weight=3),
        Victim("onnx", "network.onnx", _words("export trained network.onnx"), _reads(
            "export trained network.onnx", "export trained network.onnx --overwrite",
            "export network.onnx other.zerolab", "match network.onnx random --games 2",
        ), ("run",), is_resumable=False, weight=1),
        Victim("pgn", "games.pgn", (), _reads(
            "rate games.pgn", "rate games.pgn --json", "rate games.pgn games.pgn --csv",
            "rate games.pgn --figure r.png --advantage 0",
        ), finish=_write_pgn, is_resumable=False, weight=3),
        Victim("games", "games.sqlite", (), _reads(
            "rate games.sqlite", "rate games.sqlite --json", "rate games.sqlite trained --csv",
        ), ("run",), finish=_keep_games, is_resumable=False, weight=3),
        Victim("cache", "cache", _words(f"match mcts:9 random --game {GAME} --games 2"), _reads(
            f"match mcts:9 random --game {GAME} --games 2", f"perft {GAME} 3",
        ), environment=(("XDG_CACHE_HOME", "cache"), ("NUMBA_CACHE_DIR", "")),
            is_cache=True, weight=1),
    )
}  # fmt: skip
"""Victims by name. Victims needed by others come first."""

KEYS = {
    "gtp": "name\nboardsize 3\nclear_board\ngenmove b\nquit\n",
    "play": "b2\nhint\nundo\nquit\n",
}
"""Keyboard input of interactive commands."""


class Victims:
    """Victims of a campaign, created on demand, and the times of their commands."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self._folder = folder / "victims"
        self.launcher = launcher
        self._times = folder / "seconds.json"
        self._seconds: dict[str, float] = {}
        if self._times.exists():
            self._seconds = json.loads(self._times.read_text())

    def folder(self, victim: Victim) -> Path:
        """Return the parent folder of a victim, creating the victim if it is missing."""
        folder = self._folder / victim.name
        if not folder.exists():
            unfinished = self._folder / f".{victim.name}"
            shutil.rmtree(unfinished, ignore_errors=True)
            self.lay_out(victim, unfinished)
            if victim.make:
                self._run(victim, victim.make, unfinished, (0,))
            if victim.finish:
                victim.finish(unfinished)
            unfinished.rename(folder)
        return folder

    def lay_out(self, victim: Victim, place: Path) -> None:
        """Create a folder that contains only what is needed to create a victim."""
        place.mkdir(parents=True)
        for name in victim.needs:
            copy(self.folder(VICTIMS[name]), place)

    def seconds(self, victim: Victim, words: _Words) -> float:
        """Return the time of a command on an undamaged victim; the command can exit with 2."""
        key = f"{victim.name}: {' '.join(words)}"
        if key not in self._seconds:
            times = []
            for attempt in range(2):  # the first one can include compilation
                place = self._folder.parent / "undamaged"
                shutil.rmtree(place, ignore_errors=True)
                copy(self.folder(victim), place)
                times.append(self._run(victim, words, place, (0, 2)).seconds)
                if times[attempt] < 5:
                    break
            self._seconds[key] = times[-1]
            self._times.write_text(json.dumps(self._seconds, indent=1))
        return self._seconds[key]

    def _run(self, victim: Victim, words: _Words, place: Path, codes: tuple[int, ...]) -> Ended:
        command = Command(words, place, KEYS.get(words[0], ""), dict(victim.environment))
        launcher = Shell() if victim.is_cache else self.launcher
        ended = watched(launcher, command, self._folder.parent / "notes", _LONGEST)
        if faults := ended.faults(codes):
            raise RuntimeError(
                f"{victim.name}: zerolab {' '.join(words)}: {'; '.join(faults)}: {ended.message}"
            )
        return ended


def copy(source: Path, place: Path) -> None:
    """Copy a folder's content into another folder, preserving links."""
    shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
