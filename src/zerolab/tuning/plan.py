"""Plan of a hyper-parameter search, checked before the search starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import Field, field_validator

from zerolab.agents.agent import Agent, check_program_starts
from zerolab.agents.specs import is_program_spec, parse_agents
from zerolab.core.config import Settings
from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.nested_tables import Assignment, assign, flatten
from zerolab.evaluation.positions import content_digest, read_positions
from zerolab.play.pairings import check_opening_length, require_even_games
from zerolab.rules.catalogue import canonical_game_name, parse_game
from zerolab.rules.rules import Game
from zerolab.training.configure import assigned_keys, no_effect_message, resolve_settings
from zerolab.training.train_settings import TrainSettings
from zerolab.training.trainer import check_new_run
from zerolab.tuning.space import SearchSpace, TrialValues

Objective = Literal["accuracy", "elo", "loss"]
"""Name of the quantity that the search optimises."""

OPENING_PLIES = 4
"""Random plies at the start of games that measure the ``elo`` objective."""

_CHECKED = ("accuracy", "start", "network", "gate", "warm_start", "final_evaluation", "iterations")
"""Settings that `check_new_run` checks."""


class TuningSettings(Settings):
    """Settings of a hyper-parameter search."""

    game: str
    """Game to train on."""

    preset: str = "mini"
    """Preset to start from."""

    assignments: tuple[str, ...] = ()
    """Fixed and searched settings, in the syntax of `zerolab.tuning.space`."""

    positions: str = ""
    """File of solved positions for the ``accuracy`` objective; an alternative to the setting
    `accuracy.positions`."""

    objective: Objective = "accuracy"
    """Objective of the search. ``accuracy`` is the last strong accuracy of search on solved
    positions. ``elo`` is the Elo of the best network relative to a fixed opponent. ``loss`` is the
    total loss of all heads in the last iteration, which is a poor measure of strength."""

    and_time: bool = False
    """True to minimise training time as a second objective."""

    seed: int = Field(default=0, ge=0, lt=1 << 62)
    """Seed of the search. Trial n trains with the seed `seed` + n."""

    games: int | None = Field(default=None, ge=2, le=1_000_000)
    """Number of games in the match for the ``elo`` objective, half of them with each colour; 200 if
    None."""

    opponent: str | None = None
    """Opponent in the match for the ``elo`` objective; mcts:100?tie_break=random if None."""

    allow_programs: bool = False
    """True to allow running programs that a preset file names; see `resolve_settings`."""

    @field_validator("game")
    @classmethod
    def _known_game(cls, text: str) -> str:
        return canonical_game_name(text)

    @field_validator("games")
    @classmethod
    def _require_even(cls, games: int | None) -> int | None:
        return None if games is None else require_even_games(games)

    @property
    def match_games(self) -> int:
        """Number of games in the match, with its default."""
        return 200 if self.games is None else self.games

    @property
    def match_opponent(self) -> str:
        """Opponent in the match, with its default."""
        return "mcts:100?tie_break=random" if self.opponent is None else self.opponent

    @property
    def is_maximised(self) -> bool:
        """True if a higher objective is better."""
        return self.objective != "loss"


class TuningPlan:
    """Checked settings of a search, and the settings of its trials.

    Raises UserError for every error that can be detected before the folder is created.
    """

    def __init__(self, settings: TuningSettings) -> None:
        self.settings = settings
        self.space = SearchSpace.parse(settings.assignments)
        self._assignments = self._accuracy_assignments()
        self.base_settings = self._first_valid([self.space.corner_values(end) for end in (0, -1)])
        check_new_run(self._as_trained(self.base_settings))
        if not self.space.searched_domains:
            raise UserError(
                "nothing to search: expected a --set with a range or alternatives, such as"
                " search.selection.c=0.5..4 or learn.loss=sum|product"
            )
        probes = [self._first_valid(trials) for trials in self.space.trials_that_check_values()]
        self._require_effects([self.base_settings, *probes])
        for probe in probes:
            if any(getattr(probe, key) != getattr(self.base_settings, key) for key in _CHECKED):
                check_new_run(self._as_trained(probe))
        self._check_accuracy()
        self.opponent = self._checked_opponent()

    @property
    def game(self) -> Game:
        """Game to train on."""
        return parse_game(self.settings.game)

    @property
    def has_pruning(self) -> bool:
        """True if trials with low accuracy are stopped early.

        Optuna cannot prune trials with two objectives.
        """
        return self.settings.objective == "accuracy" and not self.settings.and_time

    def trial_preset(self, values: TrialValues, number: int) -> str:
        """Return the settings of a trial as a preset in TOML.

        Raises UserError if the values are incompatible.
        """
        settings, tables = self._resolve(values, number), dict[str, Any]()
        for key, value in flatten(explicit_settings(settings)):
            if key != "preset" and not no_effect_message(settings, key):
                assign(tables, key.split("."), value)
        return tomli_w.dumps(tables)

    def trial_settings(self, values: TrialValues, number: int) -> TrainSettings:
        """Return the training settings of a trial.

        The final evaluation is disabled unless the assignments set `final_evaluation.games`. Raises
        UserError if the values are incompatible.
        """
        return self._as_trained(self._resolve(values, number))

    def immutable_settings(self) -> dict[str, Any]:
        """Return the settings that a resumed search must not change, as nested tables."""
        settings = self.settings
        measured_with: dict[str, Any] = {}
        if settings.objective == "accuracy":
            positions = read_positions(Path(self.base_settings.accuracy.positions), self.game)
            measured_with = {"positions_identity": content_digest(*positions)}
        elif self.opponent is not None:
            measured_with = {
                "games": settings.match_games, "opponent": settings.match_opponent,
                "opponent_identity": self.opponent.identity,
            }  # fmt: skip
        space = {
            setting.key: setting.value_text
            for setting in self.space.all_settings
            if setting.domain is not None
        }
        return {
            "game": settings.game, "objective": settings.objective, "and_time": settings.and_time,
            "seed": settings.seed, **measured_with, "space": space,
            "settings": explicit_settings(self.base_settings),
        }  # fmt: skip

    @property
    def _plays_baselines(self) -> bool:
        return "final_evaluation.games" in assigned_keys(self.space.possible_assignments)

    def _as_trained(self, settings: TrainSettings) -> TrainSettings:
        """Disable the final evaluation unless the assignments set `final_evaluation.games`."""
        if self._plays_baselines:
            return settings
        final = settings.final_evaluation.model_copy(update={"games": 0})
        return settings.model_copy(update={"final_evaluation": final})

    def _resolve(self, values: TrialValues, number: int | None = None) -> TrainSettings:
        """Return the settings for `values`, with the seed of trial `number` unless it is None."""
        seed = [] if number is None else [("seed", self.settings.seed + number)]
        assignments = [*self.space.assignments(values), *self._assignments, *seed]
        allow_programs = self.settings.allow_programs or not self._plays_baselines
        return resolve_settings(
            self.settings.game, self.settings.preset, assignments, allow_programs=allow_programs
        )

    def _checked_opponent(self) -> Agent | None:
        """Return the opponent in the match for the ``elo`` objective; None for other objectives."""
        settings = self.settings
        if settings.objective != "elo":
            for name, value in (("games", settings.games), ("opponent", settings.opponent)):
                if value is not None:
                    raise UserError(
                        f"{name} = {quoted(value)} applies only to the elo objective, not to"
                        f" {quoted(settings.objective)}"
                    )
            return None
        opponent = parse_agents([settings.match_opponent], self.game)[0]
        check_opening_length(self.game, OPENING_PLIES)
        if is_program_spec(settings.match_opponent):
            check_program_starts(opponent)
        return opponent

    def _accuracy_assignments(self) -> list[Assignment]:
        """Return the additional settings needed to measure accuracy after each iteration."""
        positions = self.settings.positions
        if self.settings.objective != "accuracy":
            if positions:
                raise UserError(
                    f"positions = {quoted(positions)} applies only to the accuracy objective, not"
                    f" to {quoted(self.settings.objective)}"
                )
            return []
        keys = assigned_keys(self.space.possible_assignments)
        if positions and "accuracy.positions" in keys:
            raise UserError(
                "--positions and accuracy.positions set the same file: expected only one of them"
            )
        preset = resolve_settings(self.settings.game, self.settings.preset, allow_programs=True)
        accuracy = preset.accuracy
        if not (positions or accuracy.positions or "accuracy.positions" in keys):
            raise UserError(
                "the accuracy objective needs solved positions: expected --positions FILE with a"
                " file from zerolab dataset, or --objective elo"
            )
        assignments: dict[str, Any] = {}
        if positions:
            assignments["accuracy.positions"] = positions
        if not accuracy.every and "accuracy.every" not in keys:
            assignments["accuracy.every"] = 1
        return list(assignments.items())

    def _first_valid(self, trials: Sequence[TrialValues]) -> TrainSettings:
        """Return the settings of the first trial with compatible values.

        Raises the UserError of the first trial if there is none.
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
        for setting in self.space.all_settings:
            messages = [no_effect_message(settings, setting.key) for settings in trials]
            if all(messages):
                raise UserError(messages[0])

    def _check_accuracy(self) -> None:
        every = self.base_settings.accuracy.every
        if self.settings.objective == "accuracy" and every < 1:
            raise UserError(
                f"accuracy.every = {every}: the accuracy objective needs a value of at least 1"
            )


def explicit_settings(settings: TrainSettings) -> dict[str, Any]:
    """Return the settings that were set explicitly, as nested tables.

    Defaults are omitted because some defaults depend on the machine.
    """
    return settings.model_dump(mode="json", exclude_unset=True)


def trial_preset_path(folder: Path, number: int) -> Path:
    """Return the path of the preset of a trial."""
    return folder / "presets" / f"{number:04}.toml"


def trial_run_path(folder: Path, number: int) -> Path:
    """Return the path of the run of a trial."""
    return folder / "runs" / f"{number:04}"


def one_line_error(error: UserError) -> str:
    """Return the message of an error, which may have several lines, as one line."""
    return one_line("; ".join(str(error).splitlines()))
