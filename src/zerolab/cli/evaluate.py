"""`zerolab evaluate`: how good a player is."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from rich.console import Console

from zerolab.agents.interface import Agent
from zerolab.agents.policy_player import PolicyPlayer
from zerolab.agents.specs import parse_agent
from zerolab.cli.assessments import as_plain, describe_score, print_assessments, print_report
from zerolab.cli.meter import meter
from zerolab.cli.parse import call
from zerolab.core.errors import UserError
from zerolab.core.files import check_target
from zerolab.evaluation.accuracy import Assessment, assess, assess_random
from zerolab.evaluation.choices import network_choices, player_choices
from zerolab.evaluation.collecting import Recipe
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.evaluation.figure import check_ending, save_accuracy
from zerolab.evaluation.perfection import challenge, summarise
from zerolab.evaluation.positions import Positions, read_positions
from zerolab.oracles.catalogue import oracle_for
from zerolab.oracles.interface import NotSolvedError, Oracle
from zerolab.oracles.solver import Budget
from zerolab.play.match import play_match
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.interface import Game

_YARDSTICKS = ("random", "mcts:100")
_QUICK_POSITIONS = 200
_QUICK_BUDGET = Budget(nodes=2_000_000)
_MOST_GAMES = 1_000_000
_PLAIN_WIDTH = 140  # of tables in a file or a pipe


def evaluate(
    player: tyro.conf.Positional[str],
    *,
    positions: Path | None = None,
    against: Literal["perfect"] | None = None,
    game: str | None = None,
    games: int = 40,
    openings: int = 0,
    nodes: int = 200_000_000,
    seed: int = 0,
    figure: Path | None = None,
    json: bool = False,
) -> None:
    """Measure how often a player errs, or how it does against other players.

    With --positions, its moves in solved positions are compared with the exact value of every move.
    With --against perfect, it plays against perfect play. With neither, it plays against random and
    mcts:100, and is tried on a few positions if the game is solved fast.

    Examples:
      zerolab evaluate runs/demo
      zerolab evaluate runs/demo@12 --positions othello-6x6-1000.parquet --figure accuracy.png
      zerolab evaluate mcts:400 --game othello:6x6 --against perfect --openings 20

    Args:
        player: A run such as runs/demo or runs/demo@12, or random, mcts:N, rave:N, rhea:N,
            gtp:"COMMAND".
        positions: A file that zerolab dataset has written.
        against: Play against perfect play and tell where the player gave the game away.
        game: What to play, for a player that plays any game.
        games: How many games, half of them as first player.
        openings: How many random plies games begin with, the same ones for both colours.
        nodes: How many nodes perfect play may take for a position, before it is given up.
        seed: What all draws derive from.
        figure: Draw accuracy by ply into this file, such as accuracy.png.
        json: Print JSON instead of tables.
    """
    _check(games, openings, nodes, seed)
    if figure is not None:
        check_ending(figure)
        check_target(figure)
    chosen = parse_game(game) if game is not None else None
    solved = None
    if positions is not None:
        solved, _ = read_positions(positions, chosen or _own_game(player))
        if not len(solved):
            raise UserError(f"{positions} holds no positions: expected at least one")
        chosen = solved.game
    agent = parse_agent(player, chosen)
    torch.set_num_threads(1)  # each thread that plays has a core of its own
    result: dict[str, Any] = {"player": agent.name, "game": game_name(agent.game), "seed": seed}
    console = _console(quiet=json)
    console.print(f"{agent.name}, {result['game']}")
    if against is not None:
        result["against_perfect"] = _challenge(
            console, agent, oracle_for(agent.game, Budget(nodes=nodes)), games, openings, seed
        )
    elif positions is None:
        result["matches"] = _play_yardsticks(console, agent, games, openings, seed)
        solved = _solve_some(console, agent, seed)
    if solved is not None:
        result["accuracy"] = _assess(console, agent, solved, seed, figure)
    if json:
        json_format.dump(result, sys.stdout, indent=1)
        print()


def _check(games: int, openings: int, nodes: int, seed: int) -> None:
    if not 2 <= games <= _MOST_GAMES or games % 2:
        raise UserError(f"games = {games}: expected an even number from 2 to {_MOST_GAMES}")
    if openings < 0:
        raise UserError(f"openings = {openings}: expected at least 0")
    if nodes < 1:
        raise UserError(f"nodes = {nodes}: expected at least 1")
    if not 0 <= seed < 1 << 63:
        raise UserError(f"seed = {seed}: expected at least 0 and less than 2**63")


def _console(quiet: bool) -> Console:
    return Console(
        quiet=quiet,
        width=None if sys.stdout.isatty() else _PLAIN_WIDTH,
        soft_wrap=True,
        highlight=False,
        markup=False,
        emoji=False,  # which "mcts:100:" would be taken for
    )


def _own_game(player: str) -> Game | None:
    """Return the game that a player brings with it, None where it plays any."""
    try:
        return parse_agent(player).game
    except UserError:  # raised again, if it is another mistake, when the game is known
        return None


def _challenge(
    console: Console, agent: Agent, oracle: Oracle, games: int, openings: int, seed: int
) -> dict[str, Any]:
    with meter("against perfect play", games, "games") as update:
        played, moves = challenge(
            agent.game, agent, oracle, games, openings, seed, lambda done: update(done, "")
        )
    report = summarise(played, moves)
    print_report(console, report)
    return {"games": games, "openings": openings, **as_plain(report)}


def _play_yardsticks(
    console: Console, agent: Agent, games: int, openings: int, seed: int
) -> list[dict[str, Any]]:
    lines = []
    for spec in _YARDSTICKS:
        opponent = parse_agent(spec, agent.game)
        with meter(f"against {spec}", games, "games") as update:
            match = play_match(
                agent.game, agent, opponent, games, seed,
                report=_counting(update), openings=openings,
            )  # fmt: skip
        score = match.score
        console.print(f"against {spec}: {describe_score(score)}, {match.distinct} distinct games")
        low, high = score.interval()
        estimate = {"score_rate": score.score_rate, "low": low, "high": high}
        counts = {"distinct_games": match.distinct, "openings": openings}
        lines.append({"opponent": spec, **score._asdict(), **estimate, **counts})
    return lines


def _counting(update: Callable[[int, str], None]) -> Callable[[int], None]:
    return lambda done: update(done, "")


def _solve_some(console: Console, agent: Agent, seed: int) -> Positions | None:
    """Collect a few solved positions where that is fast."""
    try:
        oracle = oracle_for(agent.game, _QUICK_BUDGET)
        return collect_in_memory(
            agent.game, _QUICK_POSITIONS, Recipe(seed=seed, one_per_game=True), oracle
        )
    except NotSolvedError:
        console.print(
            f"{game_name(agent.game)} is not solved fast: for accuracy, make positions with"
            f" zerolab dataset {game_name(agent.game)} and pass them with --positions"
        )
    except UserError as error:  # a missing extra
        console.print(f"accuracy is not measured: {error}")
    return None


def _assess(
    console: Console, agent: Agent, solved: Positions, seed: int, figure: Path | None
) -> dict[str, Any]:
    """Show how the network and the player do on solved positions, beside Random."""
    assessments: list[Assessment] = []
    if agent.evaluator is not None:
        assessments.append(assess("network", solved, network_choices(agent.evaluator(), solved)))
    if not isinstance(agent.new_player(), PolicyPlayer):
        label = "player" if agent.evaluator is None else "search"
        with meter("choosing moves", len(solved), "positions") as update:
            choices = player_choices(agent, solved, seed, _counting(update))
        assessments.append(assess(label, solved, choices))
    assessments.append(assess_random(solved))
    console.print(f"{len(solved)} solved positions, 95 % intervals")
    print_assessments(console, assessments)
    if figure is not None:
        save_accuracy(figure, f"{agent.name}, {game_name(agent.game)}", assessments)
        console.print(str(figure))
    return {"positions": len(solved), "players": as_plain(assessments)}


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and evaluate."""
    call(evaluate, "evaluate", arguments)
