"""An iteration of self-play by a search service."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from zerolab.core.config import Choice
from zerolab.play.selfplay import Episodes, SelfPlayProgress, with_outcomes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.play.service.big_tree import BigTreePlayer
from zerolab.play.service.lockstep import Begun, Lockstep
from zerolab.play.service.network_spec import EvaluatorSpec
from zerolab.play.service.retry import play_retries
from zerolab.play.service.service import Searches, SearchService
from zerolab.play.service.settings import BigTree, Retry, Service
from zerolab.rules.catalogue import game_name
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator
from zerolab.search.settings import SearchSettings

if TYPE_CHECKING:
    from zerolab.play.service.ray_service import RayService


def play_by_service(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    iteration: int,
    report: Callable[[SelfPlayProgress], None] = lambda _: None,
    *,
    name: str = "self-play",
    spec: Callable[[], EvaluatorSpec] | None = None,
) -> Episodes:
    """Play the games of an iteration as `settings.schedule` says; see `play_episodes`.

    What is played depends on the seed, the iteration, the network and the settings: neither on
    threads nor on how many positions are searched at once, as far as the network answers equally
    in every batch. `spec` says how actors make the evaluator, where the schedule asks for some.
    """
    schedule = settings.schedule
    assert isinstance(schedule, Service)
    searches = Searches(
        search, seed, iteration, settings.budget, settings.parallel_games, settings.threads,
        schedule.cache,
    )  # fmt: skip
    with _service(game, evaluator, searches, schedule.actors, spec) as service:
        lockstep = Lockstep(game, settings, service, seed, iteration, name, report)
        if isinstance(schedule, Retry):
            played = play_retries(lockstep, schedule, settings.episodes)
        elif isinstance(schedule, BigTree):
            player = BigTreePlayer(game, schedule, service, name, report)
            played = player.play(settings.episodes)
        else:
            played = lockstep.play([Begun(number) for number in range(settings.episodes)])
        decides_all = isinstance(schedule, BigTree)  # others take moves over, or play at random
        moves = len(played.examples.plies) if decides_all else service.counts["asked"]
        return Episodes(
            with_outcomes(played.examples, played.games),
            played.games,
            service.counts,
            service.seconds,
            moves,
        )


def check_schedule(schedule: Choice) -> None:
    """Raise UserError where a schedule asks for actors and the extra for them is missing."""
    if isinstance(schedule, Service) and schedule.actors:
        import_module("zerolab.core.ray_cluster")


def _service(
    game: Game,
    evaluator: Evaluator,
    searches: Searches,
    actors: int,
    spec: Callable[[], EvaluatorSpec] | None,
) -> SearchService | RayService:
    if not actors:
        return SearchService(game, evaluator, searches)
    from zerolab.play.service.ray_service import RayService  # noqa: PLC0415  needs an extra

    assert spec is not None
    return RayService(game_name(game), spec(), searches, actors)
