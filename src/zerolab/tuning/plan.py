"""Plan of a search over settings, checked before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import Field, field_validator

from zerolab.agents.specs import parse_agents
from zerolab.core.config import Settings, require_even
from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.nested_tables import Assignment
from zerolab.play.pairings import check_openings
from zerolab.rules.catalogue import canonical_game_name, parse_game
from zerolab.rules.rules import Game
from zerolab.training.configure import no_effect, resolve_settings
from zerolab.training.settings import TrainSettings
from zerolab.training.trainer import check_new_run
from zerolab.tuning.space import SearchSpace, Values

Objective = Literal["accuracy", "elo", "loss"]
"""Quantity that the search optimises."""

OPENINGS = 4
"""Random plies at the start of the games that measure the objective ``elo``."""

_CHECKED = ("accuracy", "start", "network", "gate", "warm_start", "final_evaluation", "iterations")
"""Settings in which `check_new_run` may find mistakes."""


class TuningSettings(Settings):
    """Settings of a search over settings."""

    game: str
    """Game to learn."""

    preset: str = "mini"
    """Preset that the search starts from."""

    assignments: tuple[str, ...] = ()
    """Settings that are fixed or searched, as `space` describes."""

    positions: str = ""
    """A file of solved positions for the objective ``accuracy``, unless `accuracy.positions` names
    one."""

    objective: Objective = "accuracy"
    """accuracy: strong accuracy of the search on solved positions, at its last measurement; elo:
    Elo of the best network against a fixed opponent; loss: sum of the errors of all heads in the
    last iteration, a poor measure of strength."""

    and_time: bool = False
    """True if the time of training is minimised, too."""

    seed: int = Field(default=0, ge=0, lt=1 << 62)
    """Seed from which trials are drawn; trial n trains with the seed `seed` + n."""

    games: int = Field(default=200, ge=2, le=1_000_000)
    """Games of the match that measures the objective ``elo``, half of them with each colour."""

    opponent: str = "mcts:100?tie_break=random"
    """Opponent in that match."""

    allow_programs: bool = False
    """True if programs named by the preset's file may be run; see `resolve_settings`."""

    @field_validator("game")
    @classmethod
    def _known_game(cls, text: str) -> str:
        return canonical_game_name(text)

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)

    @property
    def is_maximised(self) -> bool:
        """True if a higher objective is better."""
        return self.objective != "loss"


class TuningPlan:
    """The checked settings of a search, and the settings of its trials.

    Raises UserError for every mistake that can be found before the folder exists.
    """

    def __init__(self, settings: TuningSettings) -> None:
        self.settings = settings
        self.space = SearchSpace.parse(settings.assignments)
        self._assignments = self._for_accuracy()
        self.base = self._one_of([self.space.corner(end) for end in (0, -1)])
        check_new_run(self._as_trained(self.base))
        if not self.space.searched:
            raise UserError(
                "nothing to search: expected a --set with a range or with alternatives, such as"
                " search.selection.c=0.5..4 or learn.loss=sum|product"
            )
        probes = [self._one_of(each) for each in self.space.probes()]
        self._require_effects([self.base, *probes])
        for probe in probes:
            if any(getattr(probe, key) != getattr(self.base, key) for key in _CHECKED):
                check_new_run(self._as_trained(probe))
        self._check_accuracy()
        is_elo = settings.objective == "elo"
        self.opponent = parse_agents([settings.opponent], self.game)[0] if is_elo else None
        if is_elo:
            check_openings(self.game, OPENINGS)

    @property
    def game(self) -> Game:
        """Game to learn."""
        return parse_game(self.settings.game)

    @property
    def prunes(self) -> bool:
        """True if trials whose accuracy falls behind are ended early.

        Optuna cannot compare unfinished trials by two objectives.
        """
        return self.settings.objective == "accuracy" and not self.settings.and_time

    def preset(self, values: Values, number: int) -> str:
        """Return the settings of a trial as the TOML of a preset.

        Raises UserError if the values do not fit each other.
        """
        tables = explicit_settings(self._resolve(values, number))
        return tomli_w.dumps({key: value for key, value in tables.items() if key != "preset"})

    def trial(self, values: Values, number: int) -> TrainSettings:
        """Return the settings with which a trial is trained, without games after training.

        Raises UserError if the values do not fit each other.
        """
        return self._as_trained(self._resolve(values, number))

    def identity(self) -> dict[str, Any]:
        """Return, as tables, the settings that all searches in one folder must share."""
        settings, is_elo = self.settings, self.settings.objective == "elo"
        match = {"games": settings.games, "opponent": settings.opponent} if is_elo else {}
        space = {each.key: each.text for each in self.space.items if each.domain is not None}
        return {
            "game": settings.game, "objective": settings.objective, "and_time": settings.and_time,
            "seed": settings.seed, **match, "space": space,
            "settings": explicit_settings(self.base),
        }  # fmt: skip

    @property
    def _plays_baselines(self) -> bool:
        return any(each.key == "final_evaluation.games" for each in self.space.items)

    def _as_trained(self, settings: TrainSettings) -> TrainSettings:
        """Return settings without games after training, unless these are set explicitly."""
        if self._plays_baselines:
            return settings
        final = settings.final_evaluation.model_copy(update={"games": 0})
        return settings.model_copy(update={"final_evaluation": final})

    def _resolve(self, values: Values, number: int | None = None) -> TrainSettings:
        """Return the settings for some values, with the seed of the trial with that number."""
        seed = [] if number is None else [("seed", self.settings.seed + number)]
        assignments = [*self._assignments, *self.space.assignments(values), *seed]
        allow = self.settings.allow_programs or not self._plays_baselines
        return resolve_settings(
            self.settings.game, self.settings.preset, assignments, allow_programs=allow
        )

    def _for_accuracy(self) -> list[Assignment]:
        """Return the settings needed to measure accuracy in every iteration, unless given."""
        given = self.settings.positions
        if self.settings.objective != "accuracy":
            if given:
                raise UserError(
                    f"positions = {quoted(given)} are for the objective accuracy, not for"
                    f" {quoted(self.settings.objective)}"
                )
            return []
        named = {each.key for each in self.space.items}
        if given and "accuracy.positions" in named:
            raise UserError("--positions and accuracy.positions are the same: expected one of them")
        preset = resolve_settings(self.settings.game, self.settings.preset, allow_programs=True)
        own = preset.accuracy
        if not (given or own.positions or "accuracy.positions" in named):
            raise UserError(
                "the objective accuracy needs solved positions: expected --positions FILE, as"
                " zerolab dataset writes them, or --objective elo"
            )
        needed: dict[str, Any] = {}
        if given:
            needed["accuracy.positions"] = given
        if not own.every and "accuracy.every" not in named:
            needed["accuracy.every"] = 1
        return list(needed.items())

    def _one_of(self, trials: Sequence[Values]) -> TrainSettings:
        """Return the settings of the first trial whose values fit each other.

        Raises UserError if there is none, with the mistakes of the first trial.
        """
        mistakes = []
        for values in trials:
            try:
                return self._resolve(values)
            except UserError as error:
                mistakes.append(error)
        raise mistakes[0]

    def _require_effects(self, found: Sequence[TrainSettings]) -> None:
        """Raise UserError for a setting that has no effect in any trial."""
        for item in self.space.items:
            messages = [no_effect(each, item.key) for each in found]
            if all(messages):
                raise UserError(messages[0])

    def _check_accuracy(self) -> None:
        every = self.base.accuracy.every
        if self.settings.objective == "accuracy" and not 1 <= every <= self.base.iterations:
            raise UserError(
                f"accuracy.every = {every}: the objective accuracy needs a value from 1 to"
                f" {self.base.iterations}, the iterations of a trial"
            )


def explicit_settings(settings: TrainSettings) -> dict[str, Any]:
    """Return as tables the settings that were given, without defaults.

    Some defaults depend on the machine.
    """
    return settings.model_dump(mode="json", exclude_unset=True)


def preset_path(folder: Path, number: int) -> Path:
    """Return the file with the settings of a trial as a preset."""
    return folder / "presets" / f"{number:04}.toml"


def run_path(folder: Path, number: int) -> Path:
    """Return the folder of the run of a trial."""
    return folder / "runs" / f"{number:04}"


def joined_error(error: UserError) -> str:
    """Return an error of several lines as one line."""
    return one_line("; ".join(str(error).splitlines()))
