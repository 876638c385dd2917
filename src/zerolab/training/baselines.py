"""The opponents of the final evaluation: networks of the run itself, and agents of any kind."""

from __future__ import annotations

from typing import NamedTuple

from zerolab.agents.interface import Agent, ProgramPlayer
from zerolab.agents.options import NetworkOptions, parse_options, require_answers, split_options
from zerolab.agents.specs import parse_agents, runs_program
from zerolab.core.errors import UserError, quoted
from zerolab.rules.interface import Game
from zerolab.training.context import TrainingContext
from zerolab.training.history import best_after, read_records
from zerolab.training.settings import TrainSettings

_MOST_DIGITS = 10


class Baseline(NamedTuple):
    """An opponent of the final evaluation."""

    agent: Agent
    asked: str | None = None
    """Its name in the settings, where its network has another number."""


def run_baselines(context: TrainingContext) -> list[Baseline]:
    """Return the opponents of a run's final evaluation, each once if two specs name it.

    ``@12`` is the best network after iteration 12: it is kept, whatever became of candidate 12 and
    though the run may have ended before.
    """
    found: dict[str, Baseline] = {}
    for spec in context.settings.final_evaluation.baselines:
        baseline = _baseline(context, spec)
        found.setdefault(baseline.agent.name, baseline)
    return list(found.values())


def _baseline(context: TrainingContext, spec: str) -> Baseline:
    if not spec.startswith("@"):
        return Baseline(parse_agents([spec], context.game)[0])
    iteration, options = _own_network(spec, context.settings)
    best = best_after(read_records(context.run), iteration)
    agent = context.network_agent(best, options)
    return Baseline(agent, None if best == iteration else spec)


def check_baselines(settings: TrainSettings, game: Game) -> None:
    """Raise UserError unless every baseline of the final evaluation can be an opponent.

    A program is run to see that it plays the game.
    """
    if not settings.final_evaluation.games:
        return
    for spec in settings.final_evaluation.baselines:
        if spec.startswith("@"):
            _own_network(spec, settings)
        else:
            agent = parse_agents([spec], game)[0]
            if runs_program(spec):
                _try(agent)


def _try(agent: Agent) -> None:
    player = agent.new_player()
    try:
        player.start(1)
    finally:
        if isinstance(player, ProgramPlayer):
            player.close()


def _own_network(spec: str, settings: TrainSettings) -> tuple[int, NetworkOptions]:
    """Return the iteration and the options that ``@12`` or ``@12?simulations=400`` names."""
    head, text = split_options(spec[1:])
    if not (head.isdecimal() and len(head) < _MOST_DIGITS):
        raise UserError(f"{quoted(spec)}: expected a network of this run, such as @0")
    if int(head) > settings.iterations:
        raise UserError(
            f"{quoted(spec)} is beyond the {settings.iterations} iterations of the run: expected"
            f" @{settings.iterations} at most"
        )
    options = parse_options(NetworkOptions, text, settings.search)
    if options.simulations:
        require_answers(options, settings.network)
    return int(head), options
