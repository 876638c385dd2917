"""Plan of a settings search, which is checked before the search begins."""

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
"""Random plies at the start of games that measure the objective ``elo``."""

_CHECKED = ("accuracy", "start", "network", "gate", "warm_start", "final_evaluation", "iterations")
"""Settings in which `check_new_run` can find mistakes."""


class TuningSettings(Settings):
    """Settings of a settings search."""

    game: str
    """Game to train on."""

    preset: str = "mini"
    """Preset to start from."""

    assignments: tuple[str, ...] = ()
    """Fixed and searched settings, in the syntax of `space`."""

    positions: str = ""
    """File of solved positions for the objective ``accuracy``, as an alternative to the setting
    `accuracy.positions`."""

    objective: Objective = "accuracy"
    """Objective of the search. ``accuracy`` is the last strong accuracy of search on solved
    positions. ``elo`` is the Elo of the best network relative to a fixed opponent. ``loss`` is the
    total loss of all heads in the last iteration, which is a poor measure of strength."""

    and_time: bool = False
    """True to minimise training time as a second objective."""

    seed: int = Field(default=0, ge=0, lt=1 << 62)
    """Seed of the search. Trial n trains with the seed `seed` + n."""

    games: int = Field(default=200, ge=2, le=1_000_000)
    """Number of games in the match for the objective ``elo``, half of them with each colour."""

    opponent: str = "mcts:100?tie_break=random"
    """Opponent in the match for the objective ``elo``."""

    allow_programs: bool = False
    """True to allow running programs that the preset file names, see `resolve_settings`."""

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
    """Checked settings of a search, and the settings of its trials.

    Mistakes that can be detected before the folder is created raise UserError.
    """

    def __init__(self, settings: TuningSettings) -> None:
        self.settings = settings
        self.space = SearchSpace.parse(settings.assignments)
        self._assignments = self._accuracy_assignments()
        self.base = self._first_valid([self.space.corner(end) for end in (0, -1)])
        check_new_run(self._as_trained(self.base))
        if not self.space.searched:
            raise UserError(
                "nothing to search: expected a --set with a range or alternatives, such as"
                " search.selection.c=0.5..4 or learn.loss=sum|product"
            )
        probes = [self._first_valid(trials) for trials in self.space.probes()]
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
        """Game to train on."""
        return parse_game(self.settings.game)

    @property
    def prunes(self) -> bool:
        """True if trials with low accuracy are stopped early.

        Optuna cannot prune trials with two objectives.
        """
        return self.settings.objective == "accuracy" and not self.settings.and_time

    def preset(self, values: Values, number: int) -> str:
        """Return the settings of a trial as a preset in TOML.

        Incompatible values raise UserError.
        """
        tables = explicit_settings(self._resolve(values, number))
        return tomli_w.dumps({key: value for key, value in tables.items() if key != "preset"})

    def trial(self, values: Values, number: int) -> TrainSettings:
        """Return the training settings of a trial.

        Games after training are disabled unless they are set explicitly. Incompatible values raise
        UserError.
        """
        return self._as_trained(self._resolve(values, number))

    def identity(self) -> dict[str, Any]:
        """Return the settings that must not change when a search is resumed, as nested tables."""
        settings, is_elo = self.settings, self.settings.objective == "elo"
        match = {"games": settings.games, "opponent": settings.opponent} if is_elo else {}
        space = {item.key: item.text for item in self.space.items if item.domain is not None}
        return {
            "game": settings.game, "objective": settings.objective, "and_time": settings.and_time,
            "seed": settings.seed, **match, "space": space,
            "settings": explicit_settings(self.base),
        }  # fmt: skip

    @property
    def _plays_baselines(self) -> bool:
        return any(item.key == "final_evaluation.games" for item in self.space.items)

    def _as_trained(self, settings: TrainSettings) -> TrainSettings:
        """Disable games after training unless they are set explicitly."""
        if self._plays_baselines:
            return settings
        final = settings.final_evaluation.model_copy(update={"games": 0})
        return settings.model_copy(update={"final_evaluation": final})

    def _resolve(self, values: Values, number: int | None = None) -> TrainSettings:
        """Return the settings for `values`, with the seed of trial `number` unless it is None."""
        seed = [] if number is None else [("seed", self.settings.seed + number)]
        assignments = [*self._assignments, *self.space.assignments(values), *seed]
        allow = self.settings.allow_programs or not self._plays_baselines
        return resolve_settings(
            self.settings.game, self.settings.preset, assignments, allow_programs=allow
        )

    def _accuracy_assignments(self) -> list[Assignment]:
        """Return the missing settings for measuring accuracy after each iteration."""
        positions = self.settings.positions
        if self.settings.objective != "accuracy":
            if positions:
                raise UserError(
                    f"positions = {quoted(positions)} apply only to the objective accuracy, not to"
                    f" {quoted(self.settings.objective)}"
                )
            return []
        keys = {item.key for item in self.space.items}
        if positions and "accuracy.positions" in keys:
            raise UserError(
                "--positions and accuracy.positions have the same meaning: expected only one"
            )
        preset = resolve_settings(self.settings.game, self.settings.preset, allow_programs=True)
        accuracy = preset.accuracy
        if not (positions or accuracy.positions or "accuracy.positions" in keys):
            raise UserError(
                "the objective accuracy needs solved positions: expected --positions FILE with a"
                " file from zerolab dataset, or --objective elo"
            )
        assignments: dict[str, Any] = {}
        if positions:
            assignments["accuracy.positions"] = positions
        if not accuracy.every and "accuracy.every" not in keys:
            assignments["accuracy.every"] = 1
        return list(assignments.items())

    def _first_valid(self, trials: Sequence[Values]) -> TrainSettings:
        """Return the settings of the first trial with compatible values.

        If there is none, raise the UserError of the first trial.
        """
        errors = []
        for values in trials:
            try:
                return self._resolve(values)
            except UserError as error:
                errors.append(error)
        raise errors[0]

    def _require_effects(self, trials: Sequence[TrainSettings]) -> None:
        """Raise UserError for a setting that has no effect in any trial."""
        for item in self.space.items:
            messages = [no_effect(settings, item.key) for settings in trials]
            if all(messages):
                raise UserError(messages[0])

    def _check_accuracy(self) -> None:
        every = self.base.accuracy.every
        if self.settings.objective == "accuracy" and not 1 <= every <= self.base.iterations:
            raise UserError(
                f"accuracy.every = {every}: the objective accuracy needs a value from 1 to"
                f" {self.base.iterations}, the number of iterations of a trial"
            )


def explicit_settings(settings: TrainSettings) -> dict[str, Any]:
    """Return the explicitly set settings as nested tables.

    Defaults are omitted because some of them depend on the machine.
    """
    return settings.model_dump(mode="json", exclude_unset=True)


def preset_path(folder: Path, number: int) -> Path:
    """Return the path of a trial's preset."""
    return folder / "presets" / f"{number:04}.toml"


def run_path(folder: Path, number: int) -> Path:
    """Return the run folder of a trial."""
    return folder / "runs" / f"{number:04}"


def joined_error(error: UserError) -> str:
    """Return the message of an error, which can have several lines, as one line."""
    return one_line("; ".join(str(error).splitlines()))
