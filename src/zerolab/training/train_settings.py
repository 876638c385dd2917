"""All settings of a run, with the papers' values, and checks that they fit together."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from zerolab.agents.agent import require_network_outputs
from zerolab.agents.specs import is_program_spec
from zerolab.core.config import Settings, validate, variant_annotation
from zerolab.core.errors import UserError, quoted
from zerolab.core.resources import checked_device_name
from zerolab.evaluation.opponents import BASELINES
from zerolab.league.league_settings import EvolutionSettings, LeagueSettings
from zerolab.networks.catalogue import GROWTHS, NETWORKS, NetworkSettings
from zerolab.networks.objectives import TargetOptions, missing_heads, trained_heads
from zerolab.play.pairings import require_even_games
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import canonical_game_name, parse_game
from zerolab.search.search_settings import SearchSettings
from zerolab.training.criteria import GATES, STOP_RULES
from zerolab.training.learn_settings import (
    SOLVED_TARGET_OPTIONS,
    LearnSettings,
    StartSettings,
    SupervisedSettings,
)
from zerolab.training.published_bugs import BugName, check_published_bugs
from zerolab.training.shorthands import expand_hours
from zerolab.training.warm_start import WarmStartSettings, warm_start_search_settings


class AccuracySettings(Settings):
    """Measurements of accuracy on solved positions."""

    every: int = Field(default=0, ge=0, le=1_000_000)
    """Iterations between measurements of the best network, which is also measured after the last
    iteration; 0 to disable. [Clausen2021]: 1."""

    positions: str = ""
    """A file of solved positions for the run's game, written by `zerolab dataset`; not the file
    from which the run learns. The content of the file must not change."""

    @model_validator(mode="after")
    def _require_positions(self) -> AccuracySettings:
        if self.every and not self.positions:
            raise ValueError(
                f"every = {self.every} needs solved positions: expected accuracy.positions=FILE,"
                " written by zerolab dataset"
            )
        return self


class FinalEvaluationSettings(Settings):
    """Games against baseline opponents after training."""

    games: int = Field(default=0, ge=0, le=1_000_000)
    """Games against each baseline, half of them with each colour; 0 to disable."""

    openings: int = Field(default=4, ge=0, le=1000)
    """Random plies at the start of each game. Each opening is played twice, with colours
    swapped."""

    baselines: tuple[str, ...] = (*BASELINES, "@0")
    """The specs of the opponents. ``@0`` is the initial network of this run, and ``@12`` the best
    network after iteration 12. Plain MCTS breaks ties at random; a preference for low-numbered
    actions would make it overlook moves, and the network would seem stronger. A program, such as
    ``gtp:"COMMAND"``, that is named in a file but not on the command line runs only with
    ``--allow-programs``."""

    @field_validator("games")
    @classmethod
    def _require_even(cls, games: int) -> int:
        return require_even_games(games)


class TrainSettings(Settings):
    """All settings of a run."""

    game: str = "othello:6x6"
    """The game, name:ROWSxCOLUMNS[:K], as listed by `zerolab games`."""

    preset: str = ""
    """Name of the preset that was used, for information only."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of all random streams."""

    device: Annotated[str, AfterValidator(checked_device_name)] = "auto"
    """Device on which the networks run: auto, cpu, cuda, cuda:N or mps. With auto, it is the device
    named by the environment variable ZEROLAB_DEVICE; if that is unset, the first CUDA GPU, or else
    the CPU. Can be changed when a run is resumed, but results differ between devices."""

    iterations: int = Field(default=100, ge=1, le=1_000_000)
    """I: number of iterations, each consisting of self-play, learning and gating. [Wang2020b]: 100;
    [Wang2019] and [Wang2020a]: 100, and 200 on 5x5 boards; [Hongcharoen2018]: 50."""

    selfplay: SelfPlaySettings = SelfPlaySettings()
    """Self-play."""
    league: EvolutionSettings | None = None
    """Self-play in a league of players with evolving search settings, instead of a single player
    (docs/league.md). Setting any key of `league` enables it. [Clausen2021]: the "evolution"
    variant."""
    supervised: SupervisedSettings = SupervisedSettings()
    """Solved positions to learn from instead of self-play."""
    search: SearchSettings = SearchSettings()
    """The search that chooses moves."""
    warm_start: WarmStartSettings = WarmStartSettings()
    """The search in the first self-play iterations."""
    network: variant_annotation(NETWORKS) = Field(default_factory=NETWORKS["conv"])  # type: ignore[valid-type]
    """The architecture."""
    start: StartSettings | None = None
    """The source of network 0's weights; random weights if unset. The other keys of `start` require
    `start.source`."""
    growth: variant_annotation(GROWTHS) = Field(default_factory=GROWTHS["none"])  # type: ignore[valid-type]
    """Growth of the network after certain iterations. [Clausen2021], growing network:
    reinitialise."""
    learn: LearnSettings = LearnSettings()
    """Training of the network."""
    gate: variant_annotation(GATES) = Field(default_factory=GATES["win_rate"])  # type: ignore[valid-type]
    """Criterion for replacing the best network with a candidate. [Wang2019] and [Wang2020b]:
    win_rate; [Wang2020a]: win_rate, and always in its factorial part; [Hongcharoen2018]:
    strict_win_rate."""
    accuracy: AccuracySettings = AccuracySettings()
    """Measurements of accuracy on solved positions."""
    stop: Annotated[variant_annotation(STOP_RULES), BeforeValidator(expand_hours)] = Field(  # type: ignore[valid-type]
        default_factory=STOP_RULES["never"]
    )
    """Rule that ends a run before its last iteration. `1.5h` sets a limit of 1.5 hours.
    [Clausen2021]: no_gain."""
    final_evaluation: FinalEvaluationSettings = FinalEvaluationSettings()
    """Games against baseline opponents after training."""
    published_bugs: tuple[BugName, ...] = ()
    """Bugs in published code to reproduce, only for studies of published results. `mirrored_policy`
    [WangCode] trains mirrored boards with the policy of the original board. `absolute_winner` [AZG,
    2019] mistakes the winner's colour for a result relative to the side to move.
    `fresh_optimizer` [AZG with PyTorch] creates a new Adam optimiser in every iteration, with a
    learning rate of 0.001 instead of `learn.learning_rate`. `losses_as_draws` [ClausenCode] labels
    solved positions as draws if the first player is to move and loses. [Wang2019]: mirrored_policy,
    in Connect Four; [Wang2020a]: probably absolute_winner, in Gobang."""

    def network_settings_at(self, iteration: int) -> NetworkSettings:
        """Return the settings of an iteration's network; iteration 0 is the initial network."""
        settings: NetworkSettings = self.growth.network_settings(self.network, iteration)
        return settings

    @property
    def run_length_setting_name(self) -> str:
        """The setting whose effect depends on the length of the run, for messages; empty if none.

        The length of a run with such a setting cannot change, since its earlier iterations would
        have been different.
        """
        if self.learn.schedule.depends_on_run_length:
            return f"learn.schedule = {quoted(self.learn.schedule.name)}"
        return "selfplay.progressive" if self.selfplay.progressive else ""

    @property
    def opponent_programs(self) -> list[str]:
        """Specs of the programs that the run plays against in its final evaluation."""
        final = self.final_evaluation
        return [spec for spec in final.baselines if is_program_spec(spec)] if final.games else []

    @property
    def target_options(self) -> TargetOptions:
        """Options for computing the heads' targets."""
        if self.supervised.positions:
            return SOLVED_TARGET_OPTIONS
        play = self.selfplay
        return TargetOptions(
            play.temperature_plies,
            play.policy_target,
            play.late_policy_target,
            self.learn.value_target_search_weight,
            play.policy_target_temperature,
        )

    @field_validator("game")
    @classmethod
    def _known_game(cls, text: str) -> str:
        """Convert the name of a game to its canonical form: ``gobang:6x6:4`` to ``gobang:6x6``."""
        return canonical_game_name(text)

    @model_validator(mode="after")
    def _warm_start_fits(self) -> TrainSettings:
        last = self.warm_start.ramp.last_scheduled_iteration
        if self.warm_start.is_active and last is not None and last > self.iterations:
            raise ValueError(
                f"warm_start.ramp.iterations = {last} exceeds the {self.iterations} iterations of"
                f" the run: expected at most {self.iterations}"
            )
        try:
            warm_search = warm_start_search_settings(self.search, self.warm_start, 1.0)
        except UserError as error:
            raise ValueError(str(error)) from None
        for where, search in (("", self.search), ("in the warm start, ", warm_search)):
            self._check_self_play(search, where)
        for key in ("discount", "draw_value"):
            if getattr(warm_search, key) != getattr(self.search, key):
                raise ValueError(
                    f"warm_start.search.{key} = {getattr(warm_search, key)}: expected"
                    f" search.{key} = {getattr(self.search, key)}, which value targets use"
                )
        return self

    def _check_self_play(self, search: SearchSettings, where: str) -> None:
        """Raise ValueError, with the prefix `where`, if a search cannot be used for self-play."""
        try:
            search.check_self_play()
            self.selfplay.check_search(search)
        except ValueError as error:
            raise ValueError(f"{where}{error}") from None

    @model_validator(mode="after")
    def _progressive_fits(self) -> TrainSettings:
        if self.selfplay.progressive is None:
            return self
        self.selfplay.progressive.check(self.search, self.selfplay.budget)
        first = self.selfplay.search_settings_at(0.0, self.search)
        self._check_self_play(first, "with selfplay.progressive.first, ")
        warm = warm_start_search_settings(first, self.warm_start, 1.0)
        self._check_self_play(warm, "with selfplay.progressive.first, in the warm start, ")
        return self

    @model_validator(mode="after")
    def _league_fits(self) -> TrainSettings:
        if self.league is not None:
            try:
                _check_league(self, self.league)
            except UserError as error:
                raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _schedule_fits(self) -> TrainSettings:
        last = self.learn.schedule.last_scheduled_iteration
        if last is not None and last > self.iterations:
            raise ValueError(
                f"learn.schedule = {quoted(self.learn.schedule.name)} lasts until iteration {last},"
                f" beyond the {self.iterations} iterations of the run: expected a shorter schedule"
                " or more iterations"
            )
        return self

    @model_validator(mode="after")
    def _growth_fits(self) -> TrainSettings:
        last = self.growth.last_scheduled_iteration
        if last is not None and last >= self.iterations:
            raise ValueError(
                f"growth.after ends with {last}, but iteration {self.iterations} is the last:"
                " expected earlier iterations"
            )
        try:
            self.network_settings_at(self.iterations)
        except UserError as error:
            raise ValueError(f"growth = {quoted(self.growth.name)}: {error}") from None
        return self

    @model_validator(mode="after")
    def _heads_fit_the_search(self) -> TrainSettings:
        warm_search = warm_start_search_settings(self.search, self.warm_start, 1.0)
        for where, search in (("", self.search), ("in the warm start, ", warm_search)):
            try:
                require_network_outputs(search, self.network)
            except UserError as error:
                raise ValueError(f"{where}search.{error}") from None
        return self

    @model_validator(mode="after")
    def _targets_fit_symmetries(self) -> TrainSettings:
        """Reject symmetries if a head's targets cannot be transformed with the board."""
        fixed = [head.name for head in self.network.heads if not head.is_equivariant]
        learn = self.learn
        if fixed and learn.symmetries != "none":
            raise ValueError(
                f"learn.symmetries = {quoted(learn.symmetries)} trains on symmetric images, for"
                f" which the {quoted(fixed[0])} head has no targets: expected"
                ' learn.symmetries = "none"'
            )
        return self

    @model_validator(mode="after")
    def _games_last_long_enough(self) -> TrainSettings:
        """Reject heads that look further ahead than the longest possible game."""
        for head in self.network.heads:
            if head.plies_ahead:
                longest = compiled_rules.max_plies(parse_game(self.game))
                if head.plies_ahead >= longest:
                    raise ValueError(
                        f"network.heads.{head.name} looks {head.plies_ahead} plies ahead, but games"
                        f" of {self.game} last at most {longest} plies: expected at most"
                        f" {longest - 1} plies"
                    )
        return self

    @model_validator(mode="after")
    def _loss_fits(self) -> TrainSettings:
        if missing := missing_heads(self.learn.loss, self.network.heads):
            names = ", ".join(quoted(head.name) for head in self.network.heads)
            raise ValueError(
                f"learn.loss = {quoted(self.learn.loss.name)} uses the {quoted(missing[0])} head:"
                f" expected it in network.heads, which has {names}"
            )
        return self

    @model_validator(mode="after")
    def _frozen_parts_fit(self) -> TrainSettings:
        if self.learn.frozen == "none":
            return self
        if self.growth.last_scheduled_iteration is not None:
            raise ValueError(
                f"learn.frozen = {quoted(self.learn.frozen)} freezes weights that growth ="
                f" {quoted(self.growth.name)} replaces: expected only one of the two settings"
            )
        if not trained_heads(self.learn.loss, self.network.heads):
            raise ValueError(
                f"learn.frozen = {quoted(self.learn.frozen)} leaves nothing to train: expected a"
                f" head with a positive weight that learn.loss = {quoted(self.learn.loss.name)}"
                " uses"
            )
        return self

    @model_validator(mode="after")
    def _stop_can_be_measured(self) -> TrainSettings:
        if self.stop.needs_accuracy and not self.accuracy.every:
            raise ValueError(
                f"stop = {quoted(self.stop.name)} requires accuracy measurements: expected"
                " accuracy.every of at least 1"
            )
        return self

    @model_validator(mode="after")
    def _window_fits(self) -> TrainSettings:
        last = self.learn.window.last_scheduled_iteration
        if last is not None and last > self.iterations:
            raise ValueError(
                f"learn.window = {quoted(self.learn.window.name)} grows until iteration {last},"
                f" beyond the {self.iterations} iterations of the run: expected its"
                " growth to end earlier, or more iterations"
            )
        return self

    @model_validator(mode="after")
    def _published_bugs_fit(self) -> TrainSettings:
        try:
            check_published_bugs(self.published_bugs, self.learn, bool(self.supervised.positions))
        except ValueError as error:
            raise ValueError(f"published_bugs: {error}") from None
        return self


def league_settings(settings: TrainSettings, evolution: EvolutionSettings) -> LeagueSettings:
    """Return the settings of a run's league; raise UserError if they are inconsistent."""
    play = settings.selfplay
    return validate(
        LeagueSettings,
        {
            **evolution.model_dump(), "game": settings.game, "seed": settings.seed,
            "search": settings.search.model_dump(), "temperature_plies": play.temperature_plies,
            "parallel_games": play.parallel_games, "threads": play.threads,
            "batch": evolution.generation,
        },
    )  # fmt: skip


def _check_league(settings: TrainSettings, evolution: EvolutionSettings) -> None:
    """Raise UserError or ValueError for settings incompatible with self-play in a league."""
    play = settings.selfplay
    for key, value, expected in (
        ("selfplay.mode", play.mode.name, "episodic"),
        ("selfplay.budget", play.budget.name, "fixed"),
        ("selfplay.random_opening_plies", play.random_opening_plies, 0),
        ("selfplay.start", play.start.name, "initial"),
        ("warm_start.variant", settings.warm_start.variant, "baseline"),
    ):
        if value != expected:
            raise ValueError(
                f"{key} = {value} is incompatible with self-play in a league: expected {expected}"
            )
    for name in ("resignation", "max_plies", "progressive"):
        if getattr(play, name) is not None:
            raise ValueError(
                f"selfplay.{name} cannot be used with self-play in a league: leave it unset"
            )
    if evolution.fitness != "results" and play.episodes % 2:
        raise ValueError(
            f"selfplay.episodes = {play.episodes} is odd: expected an even number, since"
            f" league.fitness = {evolution.fitness} compares two games"
        )
    league_settings(settings, evolution)  # checks that they are consistent
    if "draw_value" in evolution.parameters:
        play.check_draw_value("league.parameters = draw_value")
        if not any("draws" in head.evaluator_outputs for head in settings.network.heads):
            raise ValueError(
                "league.parameters = draw_value: no head of the network provides draw"
                ' probabilities; expected an "outcome" head'
            )
