"""The settings of a run; every docstring gives the papers' values (FACTS 1, Table of defaults)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from zerolab.core.config import (
    Settings,
    assign,
    choice_among,
    parse_assignments,
    require_even,
    validate,
)
from zerolab.core.errors import UserError, nearest
from zerolab.losses.catalogue import LOSSES
from zerolab.networks.catalogue import NETWORKS
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.replay.window import Symmetries
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.search.settings import SearchSettings
from zerolab.store.run_folder import RunFolder
from zerolab.training.warm_start.settings import WarmStartSettings, enhanced


class LearnSettings(Settings):
    """How the network is trained on the examples of an iteration."""

    window: int = Field(default=20, ge=1, le=1_000_000)
    """rs: iterations whose examples are kept. W, H, L: 20 (H sweeps 1 to 40); T: 20."""

    epochs: int = Field(default=10, ge=1)
    """ep: passes over the window an iteration. W, H, L: 10 (H sweeps 5 to 15); C: about 1."""

    batch_size: int = Field(default=64, ge=2)
    """bs: examples a step. W, H, L: 64 (H sweeps 32 to 96); C: 256; T: 4096."""

    learning_rate: float = Field(default=0.005, gt=0, lt=1)
    """lr: Adam's step size. W, H, L: 0.005 (H sweeps 0.001 to 0.01); T: 0.001."""

    symmetries: Symmetries = "all"
    """Every example under all symmetries (W, H, L), a random one each time, or none (C)."""

    loss: choice_among(LOSSES) = Field(default_factory=LOSSES["sum"])  # type: ignore[valid-type]
    """What is minimised. W: sum; H and L compare policy, value, sum, product and weighted."""


class GateSettings(Settings):
    """When a trained candidate replaces the best network."""

    accept: Literal["threshold", "los", "always"] = "threshold"
    """By its share of the arena games won (W, H, L, T), by how likely they show it to be stronger,
    or always (H's factorial part)."""

    games: int = Field(default=40, ge=0, le=1_000_000)
    """n: arena games an iteration, half with each colour. W, H, L: 40 (H sweeps 20 to 100);
    T: 100. 0 plays none, which needs accept = "always"."""

    threshold: float = Field(default=0.6, ge=0, le=1)
    """u: accepted when wins / (wins + losses) is at least this, draws aside. W, H, L: 0.6
    (H sweeps 0.5 to 0.7); T: 0.55. With accept = "los", when the likelihood that the
    candidate is the stronger one is at least this, such as 0.95."""

    sampled_plies: int = Field(default=0, ge=0)
    """Plies at the start of an arena game drawn in proportion to the visits, so that games differ.
    W, H, L: 0, the most visited move throughout."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)

    @model_validator(mode="after")
    def _decidable(self) -> GateSettings:
        if self.games == 0 and self.accept != "always":
            raise ValueError(
                "games = 0 leaves nothing to decide by: expected games of at least 2,"
                ' or accept = "always"'
            )
        return self


class EvaluateSettings(Settings):
    """When accuracy is measured on solved positions, and on which."""

    every: int = Field(default=0, ge=0, le=1_000_000)
    """Iterations between two measurements of the best network; 0 for none. C: 1."""

    positions: str = ""
    """A file of the run's game that `zerolab dataset` has written; it must stay as it is."""

    @model_validator(mode="after")
    def _with_positions(self) -> EvaluateSettings:
        if self.every and not self.positions:
            raise ValueError(
                f"every = {self.every} needs solved positions: expected evaluate.positions=FILE,"
                " as zerolab dataset writes them"
            )
        return self


class TrainSettings(Settings):
    """A whole run."""

    game: str = "othello:6x6"
    """name:ROWSxCOLUMNS[:K], as `zerolab games` lists them."""

    preset: str = "paper"
    """Which preset the settings began from; for people, not used."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """What all random streams derive from."""

    iterations: int = Field(default=100, ge=1)
    """I: iterations of self-play, learning and gate. W, H: 100; L: 100, 200 on 5x5 boards."""

    baseline_games: int = Field(default=0, ge=0, le=1_000_000)
    """Games against Random, plain MCTS 100 and the untrained network once training is over."""

    selfplay: SelfPlaySettings = SelfPlaySettings()
    search: SearchSettings = SearchSettings()
    warm_start: WarmStartSettings = WarmStartSettings()
    network: choice_among(NETWORKS) = Field(default_factory=NETWORKS["conv"])  # type: ignore[valid-type]
    learn: LearnSettings = LearnSettings()
    gate: GateSettings = GateSettings()
    evaluate: EvaluateSettings = EvaluateSettings()

    @field_validator("game")
    @classmethod
    def _known_game(cls, text: str) -> str:
        """Return the one spelling of a game, so that ``gobang:6x6:4`` is ``gobang:6x6``."""
        try:
            return game_name(parse_game(text))
        except UserError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _warm_start_fits(self) -> TrainSettings:
        last = self.warm_start.schedule.last
        if self.warm_start.is_on and last is not None and last > self.iterations:
            raise ValueError(
                f"warm_start.schedule.iterations = {last} is beyond the {self.iterations}"
                " iterations of the run: expected at most that many"
            )
        try:
            enhanced(self.search, self.warm_start, 1.0)
        except UserError as error:
            raise ValueError(str(error)) from None
        return self

    @field_validator("baseline_games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)


_PRESETS = files("zerolab.training") / "presets"


def preset_names() -> list[str]:
    """Return the names of the presets that come with the package."""
    return sorted(each.name[:-5] for each in _PRESETS.iterdir() if each.name.endswith(".toml"))


def resolve(game: str | None, preset: str, assignments: Sequence[str] = ()) -> TrainSettings:
    """Return a preset with ``a.b=c`` assignments on top; raise UserError for every mistake."""
    names = preset_names()
    if preset not in names:
        known = ", ".join(names)
        raise UserError(
            f'unknown preset "{preset}": expected one of {known}{nearest(preset, names)}'
        )
    data: dict[str, Any] = tomllib.loads((_PRESETS / f"{preset}.toml").read_text("utf-8"))
    data["preset"] = preset
    if game is not None:
        data["game"] = game
    for path, value in parse_assignments(assignments):
        assign(data, path, value)
    return validate(TrainSettings, data)


def amend(saved: Mapping[str, Any], assignments: Sequence[str]) -> TrainSettings:
    """Return a run's settings for resuming; only more iterations may be asked for.

    Raises UserError for any other change: the run would no longer be what its settings say.
    """
    settings = validate(TrainSettings, saved, source="config.toml")
    data = settings.model_dump()
    for path, value in parse_assignments(assignments):
        assign(data, path, value)
    wanted = validate(TrainSettings, data)
    former, latter = settings.model_dump(), wanted.model_dump()
    for key in _differences(former, latter):
        if key != "iterations":
            raise UserError(
                f"{key} = {_lookup(latter, key)} differs from the run's {_lookup(former, key)}:"
                " a run keeps its settings (only iterations may grow); start another with --run"
            )
    if wanted.iterations < settings.iterations:
        raise UserError(
            f"iterations = {wanted.iterations}: expected at least the run's {settings.iterations}"
        )
    return wanted


def saved_settings(run: RunFolder) -> TrainSettings:
    """Return a run's saved settings."""
    return validate(TrainSettings, run.config, source=str(run.path / "config.toml"))


def _differences(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> list[str]:
    keys = []
    for key in {**one, **other}:
        left, right = one.get(key), other.get(key)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            keys += _differences(left, right, f"{prefix}{key}.")
        elif left != right:
            keys.append(prefix + key)
    return keys


def _lookup(data: Mapping[str, Any], key: str) -> Any:
    value: Any = data
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
