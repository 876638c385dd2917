"""`zerolab play` and `zerolab gtp`: agents that play against a person or a program."""

from __future__ import annotations

import sys
from typing import Literal

import numpy as np

from zerolab.agents.agent import FORFEIT, Player
from zerolab.agents.network_players import SearchPlayer, prepare_for_one_game
from zerolab.agents.specs import parse_agent
from zerolab.cli.output import Console
from zerolab.cli.parse import AgentSpec
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.gtp.engine import GtpEngine
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.report.text import print_table
from zerolab.rules.catalogue import notation_of, parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

_SLOT = np.zeros(1, np.int64)
_HELP = "a move, or: hint, undo, moves, new, help, quit"
_HINTS = 8


def play(
    opponent: AgentSpec,
    *,
    side: Literal["first", "second"] = "first",
    game: str | None = None,
    seed: int = 0,
) -> None:
    """Play in the terminal against the agent of a run or another agent.

    Type moves such as c2; in Connect Four, the number of a column, from 0. Type hint to see the
    agent's analysis, or undo to take back your last move.

    Examples:
      zerolab play runs/demo --side second
      zerolab play runs/demo@12
      zerolab play mcts:1000 --game othello:6x6
      zerolab play perfect --game connect_four:4x4

    Args:
        opponent: Run such as runs/demo or runs/demo@12, or one of {agents}.
        side: Side that you play.
        game: Game to play; not needed if the opponent determines it, as runs do.
        seed: Seed of the opponent's random choices.
    """
    if not 0 <= seed < 1 << 63:
        raise UserError(f"seed = {seed}: expected at least 0 and less than 2**63")
    agent = parse_agent(opponent, parse_game(game) if game is not None else None)
    _GameInTerminal(
        Console(),
        prepare_for_one_game(agent.new_player()),
        Position.start(agent.game),
        side,
        seed,
    ).play()


class _GameInTerminal:
    """Game between a person and an agent in a terminal."""

    def __init__(
        self, console: Console, opponent: Player, position: Position, side: str, seed: int
    ) -> None:
        self.console = console
        self.opponent = opponent
        self.position = position
        self.human_first = side == "first"
        self.seed = seed
        self.games = 0
        self._forfeited = False
        self.opponent.start(1)

    def play(self) -> None:
        """Alternate moves until the person leaves."""
        moves = notation_of(self.position.game).moves_text(self.position.game)
        self.console.print(f"you play {'X' if self.human_first else 'O'}; moves are {moves}")
        self.console.print(f"type {_HELP}")
        self._show()
        while True:
            if self.position.outcome is None and not self._human_to_move and not self._forfeited:
                self._reply()
                continue
            try:
                words = self.console.input("> ").strip()
            except (EOFError, RuntimeError):  # standard input is at its end or closed
                return
            if words in ("quit", "q", "exit"):
                return
            try:
                self._execute(words)
            except UserError as error:
                self.console.print(str(error), style="red", highlight=False)

    @property
    def _human_to_move(self) -> bool:
        return self.position.first_to_move == self.human_first

    def _execute(self, words: str) -> None:
        commands = {
            "": lambda: self.console.print(_HELP),
            "help": lambda: self.console.print(_HELP),
            "hint": self._hint,
            "undo": self._undo,
            "moves": lambda: self.console.print(" ".join(self.position.legal_moves)),
            "new": self._restart,
        }
        if words.lower() in commands:
            commands[words.lower()]()
        else:
            self._make_move(self.position.parse(words))

    def _reply(self) -> None:
        states = self.position.state[None]
        with self.console.status(f"{self.opponent.name} is thinking"):
            action = int(self.opponent.choose(_SLOT, states, self._keys())[0])
        if action == FORFEIT:
            self._forfeited = True
            self.console.print(f"{self.opponent.name} resigns; type new for another game")
            return
        self.console.print(f"{self.opponent.name} plays {self.position.name(action)}")
        self._make_move(action)

    def _keys(self) -> np.ndarray:
        numbers, plies = np.array([self.games]), np.array([self.position.ply])
        return streams.stream_keys(self.seed, 0, numbers, plies, streams.ARENA_MOVE)

    def _make_move(self, action: int) -> None:
        if self._forfeited:
            raise UserError("the game is over: type new for another game")
        self.position = self.position.play(action)
        self.opponent.advance(_SLOT, np.array([action]))
        self._show()

    def _undo(self) -> None:
        """Take back the person's last move and all later moves."""
        own_plies = [n for n in range(self.position.ply) if (n % 2 == 0) == self.human_first]
        if not own_plies:
            raise UserError("nothing to take back: you have not moved yet")
        self._replay(self.position.history[: own_plies[-1]])

    def _restart(self) -> None:
        self.games += 1
        self._replay(())

    def _replay(self, history: tuple[int, ...]) -> None:
        self._forfeited = False
        self.opponent.start(1)
        self.position = Position.start(self.position.game)
        for action in history:
            self.position = self.position.play(action)
            self.opponent.advance(_SLOT, np.array([action]))
        self._show()

    def _hint(self) -> None:
        """Show the agent's priors, visit shares and values of the most visited moves.

        Values are P(win) - P(loss) for the person.
        """
        if not isinstance(self.opponent, SearchPlayer):
            raise UserError(f"{self.opponent.name} has no hints: expected an agent that searches")
        if self.position.outcome is not None:
            raise UserError("the game is over")
        self.opponent.choose(_SLOT, self.position.state[None], self._keys())
        search = self.opponent.search
        visits, values = (column[0] for column in search.root_visits_and_values(_SLOT))
        priors = search.root_priors(_SLOT)[0]
        rows: list[list[Cell]] = []
        for action in np.argsort(-visits, kind="stable")[:_HINTS]:
            if visits[action]:
                share = visits[action] / visits.sum()
                numbers = float(priors[action]), float(share), float(values[action])
                rows.append([self.position.name(int(action)), *numbers])
        columns: list[str | Column] = [
            "move",
            Column("prior", ".1%"),
            Column("visits", ".1%"),
            Column("value", "+.2f"),
        ]
        print_table(self.console, Table("hint", "", columns, rows))
        value = search.root_values(_SLOT)[0]
        self.console.print(f"value of the position for you: {value:+.2f} (+1 wins, -1 loses)")

    def _show(self) -> None:
        self.console.print()
        coloured = self.position.render(colour=self.console.is_terminal)
        sys.stdout.write(coloured + "\n")
        sys.stdout.flush()
        if self.position.outcome is not None:
            self.console.print("game over; type new, undo or quit")


def gtp(player: AgentSpec, *, game: str | None = None, seed: int = 0) -> None:
    """Run an agent as an engine for the Go Text Protocol, version 2, on standard input and output.

    Examples:
      zerolab gtp runs/demo
      zerolab gtp mcts:100 --game othello:8x8

    Args:
        player: Run such as runs/demo?simulations=400, or one of {agents}.
        game: Initial game; not needed if the agent determines it, as runs do.
        seed: Seed of the agent's random choices.
    """
    if not 0 <= seed < 1 << 63:
        raise UserError(f"seed = {seed}: expected at least 0 and less than 2**63")
    agent = parse_agent(player, parse_game(game) if game else None)

    def make_player(new_game: Game) -> Player:
        return (agent if new_game == agent.game else parse_agent(player, new_game)).new_player()

    engine = GtpEngine(agent.game, make_player, seed)
    if sys.stdin is not None:
        engine.serve(sys.stdin.buffer, sys.stdout.buffer)
