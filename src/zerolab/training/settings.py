"""The settings of a run, and checks across them.

Docstrings give the values of the papers, by the keys of docs/papers.md.
"""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from zerolab.agents.options import require_network_outputs
from zerolab.core.config import (
    Settings,
    require_even,
    validate,
    variant_among,
)
from zerolab.core.errors import UserError, quoted
from zerolab.evaluation.opponents import BASELINES
from zerolab.league.league_settings import Evolution, LeagueSettings
from zerolab.networks.catalogue import GROWTHS, NETWORKS, NetworkSettings
from zerolab.networks.head import TargetOptions
from zerolab.networks.losses import learnt_heads, missing_heads
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import python
from zerolab.rules.catalogue import canonical_game_name, parse_game
from zerolab.search.search_settings import SearchSettings
from zerolab.training.criteria import GATES, STOP_RULES
from zerolab.training.learn_settings import (
    TARGETS,
    LearnSettings,
    StartSettings,
    SupervisedSettings,
)
from zerolab.training.published_bugs import BugName, check_published_bugs
from zerolab.training.warm_start import WarmStartSettings, warm_start_search


class AccuracySettings(Settings):
    """Measurements of accuracy on solved positions."""

    every: int = Field(default=0, ge=0, le=1_000_000)
    """Iterations between two measurements of the best network; 0 for none. [Clausen2021]: 1."""

    positions: str = ""
    """A file for the run's game, written by `zerolab dataset`; its content must not change."""

    @model_validator(mode="after")
    def _with_positions(self) -> AccuracySettings:
        if self.every and not self.positions:
            raise ValueError(
                f"every = {self.every} needs solved positions: expected accuracy.positions=FILE,"
                " written by zerolab dataset"
            )
        return self


class FinalEvaluationSettings(Settings):
    """Games against baseline opponents after training."""

    games: int = Field(default=0, ge=0, le=1_000_000)
    """Games against each baseline, half of them with each colour; 0 for none."""

    openings: int = Field(default=4, ge=0, le=1000)
    """Random plies at the start of a game; each opening is played twice, with colours exchanged."""

    baselines: tuple[str, ...] = (*BASELINES, "@0")
    """The opponents' specs. ``@0`` is network 0 of this run, the untrained one, ``@12`` the best
    network after iteration 12. Plain MCTS breaks ties at random: with a preference for low actions
    it would overlook moves and flatter the network. A program, such as ``gtp:"COMMAND"``, that is
    named by a file and not on the command line runs only with ``--allow-programs``."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)


class TrainSettings(Settings):
    """The settings of a run."""

    game: str = "othello:6x6"
    """The game, name:ROWSxCOLUMNS[:K], as listed by `zerolab games`."""

    preset: str = ""
    """The preset that the settings started from, for information."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """The seed of all random streams."""

    iterations: int = Field(default=100, ge=1)
    """I: iterations of self-play, learning and gate. [Wang2020b]: 100; [Wang2019] and [Wang2020a]:
    100, on 5x5 boards 200; [Hongcharoen2018]: 50."""

    selfplay: SelfPlaySettings = SelfPlaySettings()
    """Self-play."""
    league: Evolution | None = None
    """Self-play among the players of a league instead of one player: they differ in search
    settings, and the best ones have mutants (docs/league.md). Any of its keys turns it on.
    [Clausen2021]: the variant "evolution"."""
    supervised: SupervisedSettings = SupervisedSettings()
    """Solved positions to learn from instead of self-play."""
    search: SearchSettings = SearchSettings()
    """The search for a move."""
    warm_start: WarmStartSettings = WarmStartSettings()
    """The search in the first iterations of self-play."""
    network: variant_among(NETWORKS) = Field(default_factory=NETWORKS["conv"])  # type: ignore[valid-type]
    """The architecture."""
    start: StartSettings | None = None
    """The source of network 0, instead of random weights. Its other keys need `start.source`."""
    growth: variant_among(GROWTHS) = Field(default_factory=GROWTHS["none"])  # type: ignore[valid-type]
    """Growth of the network: its size is multiplied after some iterations. [Clausen2021], growing
    network: reinitialise."""
    learn: LearnSettings = LearnSettings()
    """Training of the network."""
    gate: variant_among(GATES) = Field(default_factory=GATES["win_rate"])  # type: ignore[valid-type]
    """Criterion by which a candidate replaces the best network. [Wang2019], [Wang2020b] and
    [Hongcharoen2018]: win_rate; [Wang2020a]: win_rate, and always in its factorial part."""
    accuracy: AccuracySettings = AccuracySettings()
    """Measurements of accuracy on solved positions."""
    stop: variant_among(STOP_RULES) = Field(default_factory=STOP_RULES["never"])  # type: ignore[valid-type]
    """Rule that ends a run before its last iteration. [Clausen2021]: no_gain."""
    final_evaluation: FinalEvaluationSettings = FinalEvaluationSettings()
    """Games against baseline opponents after training."""
    published_bugs: tuple[BugName, ...] = ()
    """Bugs of published code to be reproduced, for studies of published results only: mirrored
    boards are learnt with the policy of the unmirrored ones (`mirrored_policy`, [WangCode]); the
    colour of the winner is read as relative to the mover (`absolute_winner`, [AZG] in 2019); Adam
    is new in every iteration, with a learning rate of 0.001 instead of `learn.learning_rate`
    (`fresh_optimizer`, [AZG] with PyTorch); in solved positions, losses of the first player to move
    are labelled draws (`losses_as_draws`, [ClausenCode]). [Wang2019]: mirrored_policy, in Connect
    Four; [Wang2020a]: probably absolute_winner, in Gobang."""

    def network_of(self, iteration: int) -> NetworkSettings:
        """Return the settings of the network of an iteration, 0 for the untrained one."""
        settings: NetworkSettings = self.growth.network(self.network, iteration)
        return settings

    @property
    def targets(self) -> TargetOptions:
        """The options from which heads compute their targets."""
        if self.supervised.positions:
            return TARGETS
        play = self.selfplay
        return TargetOptions(
            play.temperature_plies,
            play.policy_target,
            play.late_policy_target,
            self.learn.value_target_search_weight,
        )

    @field_validator("game")
    @classmethod
    def _known_game(cls, text: str) -> str:
        """Return the canonical name of a game, such as ``gobang:6x6`` for ``gobang:6x6:4``."""
        return canonical_game_name(text)

    @model_validator(mode="after")
    def _warm_start_fits(self) -> TrainSettings:
        last = self.warm_start.ramp.last
        if self.warm_start.is_on and last is not None and last > self.iterations:
            raise ValueError(
                f"warm_start.ramp.iterations = {last} is beyond the {self.iterations}"
                " iterations of the run: expected at most that many"
            )
        try:
            warm_search = warm_start_search(self.search, self.warm_start, 1.0)
        except UserError as error:
            raise ValueError(str(error)) from None
        for where, search in (("", self.search), ("in the warm start, ", warm_search)):
            try:
                search.check_self_play()
                self.selfplay.budget.check(search)
            except ValueError as error:
                raise ValueError(f"{where}{error}") from None
        for key in ("discount", "draw_value"):
            if getattr(warm_search, key) != getattr(self.search, key):
                raise ValueError(
                    f"warm_start.search.{key} = {getattr(warm_search, key)}: value targets have the"
                    f" {getattr(self.search, key)} of search.{key}; expected the same"
                )
        return self

    @model_validator(mode="after")
    def _league_fits(self) -> TrainSettings:
        if self.league is not None:
            try:
                check_league(self, self.league)
            except UserError as error:
                raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _schedule_fits(self) -> TrainSettings:
        last = self.learn.schedule.last
        if last is not None and last > self.iterations:
            raise ValueError(
                f"learn.schedule = {quoted(self.learn.schedule.name)} lasts until iteration {last},"
                f" beyond the {self.iterations} iterations of the run: expected a shorter one"
            )
        return self

    @model_validator(mode="after")
    def _growth_fits(self) -> TrainSettings:
        last = self.growth.last
        if last is not None and last >= self.iterations:
            raise ValueError(
                f"growth.after ends with {last}, and iteration {self.iterations} is the last to"
                " learn: expected earlier ones"
            )
        try:
            self.network_of(self.iterations)
        except UserError as error:
            raise ValueError(f"growth = {quoted(self.growth.name)}: {error}") from None
        return self

    @model_validator(mode="after")
    def _heads_fit_the_search(self) -> TrainSettings:
        warm_search = warm_start_search(self.search, self.warm_start, 1.0)
        for where, search in (("", self.search), ("in the warm start, ", warm_search)):
            try:
                require_network_outputs(search, self.network)
            except UserError as error:
                raise ValueError(f"{where}search.{error}") from None
        return self

    @model_validator(mode="after")
    def _targets_turn(self) -> TrainSettings:
        """Refuse symmetries with heads whose targets cannot be turned with the board."""
        fixed = [head.name for head in self.network.heads if not head.is_equivariant]
        learn = self.learn
        if fixed and learn.symmetries != "none":
            raise ValueError(
                f"learn.symmetries = {quoted(learn.symmetries)} shows images of positions, and the"
                f" head {quoted(fixed[0])} has no targets for them: expected"
                ' learn.symmetries = "none"'
            )
        return self

    @model_validator(mode="after")
    def _games_last_long_enough(self) -> TrainSettings:
        """Refuse heads that look further ahead than any game of this board lasts."""
        for head in self.network.heads:
            if head.ahead:
                longest = python.max_plies(parse_game(self.game))
                if head.ahead >= longest:
                    raise ValueError(
                        f"network.heads.{head.name} looks {head.ahead} plies ahead, and no game of"
                        f" {self.game} lasts longer than {longest}: expected plies of at most"
                        f" {longest - 1}"
                    )
        return self

    @model_validator(mode="after")
    def _loss_fits(self) -> TrainSettings:
        if missing := missing_heads(self.learn.loss, self.network.heads):
            names = ", ".join(quoted(head.name) for head in self.network.heads)
            raise ValueError(
                f"learn.loss = {quoted(self.learn.loss.name)} uses the head {quoted(missing[0])}:"
                f" expected it in network.heads, which has {names}"
            )
        return self

    @model_validator(mode="after")
    def _frozen_leaves_something(self) -> TrainSettings:
        if self.learn.frozen == "none":
            return self
        if self.growth.last is not None:
            raise ValueError(
                f"learn.frozen = {quoted(self.learn.frozen)} keeps what growth ="
                f" {quoted(self.growth.name)} replaces: expected one of them"
            )
        if not learnt_heads(self.learn.loss, self.network.heads):
            raise ValueError(
                f"learn.frozen = {quoted(self.learn.frozen)} leaves nothing to train: expected a"
                f" head with a weight above 0 that learn.loss = {quoted(self.learn.loss.name)} uses"
            )
        return self

    @model_validator(mode="after")
    def _stop_can_be_measured(self) -> TrainSettings:
        if self.stop.needs_accuracy and not self.accuracy.every:
            raise ValueError(
                f"stop = {quoted(self.stop.name)} depends on accuracy, which is never measured:"
                " expected accuracy.every of at least 1"
            )
        return self

    @model_validator(mode="after")
    def _window_fits(self) -> TrainSettings:
        last = self.learn.window.last
        if last is not None and last > self.iterations:
            raise ValueError(
                f"learn.window = {quoted(self.learn.window.name)} grows until iteration {last},"
                f" beyond the {self.iterations} iterations of the run: expected an earlier one"
            )
        return self

    @model_validator(mode="after")
    def _published_bugs_fit(self) -> TrainSettings:
        try:
            check_published_bugs(self.published_bugs, self.learn, bool(self.supervised.positions))
        except ValueError as error:
            raise ValueError(f"published_bugs: {error}") from None
        return self


def league_settings(settings: TrainSettings, evolution: Evolution) -> LeagueSettings:
    """Return the settings of a run's league; raise UserError if they do not fit each other."""
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


def check_league(settings: TrainSettings, evolution: Evolution) -> None:
    """Raise UserError or ValueError for settings that a league cannot have."""
    play = settings.selfplay
    for key, found, expected in (
        ("selfplay.mode", play.mode.name, "episodic"),
        ("selfplay.budget", play.budget.name, "fixed"),
        ("selfplay.random_opening_plies", play.random_opening_plies, 0),
        ("warm_start.variant", settings.warm_start.variant, "baseline"),
    ):
        if found != expected:
            raise ValueError(
                f"{key} = {found} does not fit self-play in a league: expected {expected}"
            )
    if evolution.fitness != "results" and play.episodes % 2:
        raise ValueError(
            f"selfplay.episodes = {play.episodes} is odd: expected an even number, since"
            f" league.fitness = {evolution.fitness} compares two games"
        )
    chosen = league_settings(settings, evolution)
    if "draws" in chosen.extra_outputs and not any(
        "draws" in head.outputs for head in settings.network.heads
    ):
        raise ValueError(
            "league.parameters = draw_value: no head of the network gives the probability of draws;"
            ' expected the head "outcome"'
        )
