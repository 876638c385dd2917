"""Trained networks of a run as players."""

from __future__ import annotations

from zerolab.arena.players import Entrant, SearchPlayer, search_bytes
from zerolab.core.config import validate
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import NetworkEvaluator
from zerolab.networks.weights import load_weights
from zerolab.rules.catalogue import parse_game
from zerolab.search.settings import SearchSettings
from zerolab.store.run_folder import RunFolder
from zerolab.training.settings import TrainSettings


def load_evaluator(run: RunFolder, settings: TrainSettings, iteration: int) -> NetworkEvaluator:
    """Return the evaluator of a run's network; raise UserError if it is not there or damaged."""
    game = parse_game(settings.game)
    network = build_network(settings.network, game, settings.seed)
    load_weights(network, run.load_weights(iteration))
    return NetworkEvaluator(network, game)


def network_entrant(
    run: RunFolder,
    settings: TrainSettings,
    iteration: int,
    sampled_plies: int = 0,
    search: SearchSettings | None = None,
    name: str | None = None,
) -> Entrant:
    """Return a run's network as a player that searches without noise, as in training by default."""
    game, chosen = parse_game(settings.game), search or settings.search
    title = name or network_name(iteration)
    evaluator = load_evaluator(run, settings, iteration)
    return Entrant(
        title,
        lambda: SearchPlayer(game, title, chosen, evaluator, sampled_plies),
        search_bytes(game, chosen),
    )


def network_name(iteration: int) -> str:
    """Return the name under which a network's games are stored."""
    return f"network {iteration}"


def run_settings(run: RunFolder) -> TrainSettings:
    """Return a run's saved settings."""
    return validate(TrainSettings, run.config, source=str(run.path / "config.toml"))
