"""`zerolab play`, `gtp` and `serve`: play in the terminal, with programs and in a browser."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from tyro.conf import Positional

from zerolab.agents.agent import FORFEIT_ACTION, Player
from zerolab.agents.file_agents import default_opponent_spec
from zerolab.agents.network_players import SearchPlayer, prepare_for_one_game
from zerolab.agents.specs import is_agent_spec, parse_agent
from zerolab.cli.output import Console, print_lines
from zerolab.cli.parse import AgentSpec
from zerolab.cli.process import grace_period
from zerolab.core import streams
from zerolab.core.errors import MissingExtraError, UserError, quoted
from zerolab.core.files import check_output_path, make_folder, write_private_text
from zerolab.gtp.engine import GtpEngine
from zerolab.report.table import Cell, Column, Table
from zerolab.report.text import print_table
from zerolab.rules.catalogue import notation_of, parse_game, registered_games
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.store.folder import lock_folder

_SLOT, _HINT_SLOT = np.zeros(1, np.int64), np.ones(1, np.int64)
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

    If you name a game instead of an agent, such as connect_four:6x7, you play against this
    package's agent for that game, or against MCTS if there is none.

    Type moves such as c2; in Connect Four, type the column number, counted from 0. Type hint to see
    the agent's analysis, or undo to take back your last move.

    Examples:
      zerolab play connect_four:6x7
      zerolab play runs/demo --side second
      zerolab play runs/demo@4
      zerolab play mcts:1000 --game othello:6x6
      zerolab play perfect --game connect_four:4x4

    Args:
        opponent: Run such as runs/demo or runs/demo@12, one of {agents}, or a game.
        side: Side that you play.
        game: Game to play; not needed if the opponent determines it, as runs do.
        seed: Seed of the opponent's random choices.
    """
    if not 0 <= seed < 1 << 63:
        raise UserError(f"seed = {seed}: expected at least 0 and less than 2**63")
    console = Console()
    if _names_only_game(opponent):
        if game is not None:
            raise UserError(f"{quoted(opponent)} is a game: expected an agent, or no --game")
        game, opponent = opponent, default_opponent_spec(parse_game(opponent))
        console.print(f"{game} against {opponent}")
    agent = parse_agent(opponent, parse_game(game) if game is not None else None)
    _GameInTerminal(
        console,
        prepare_for_one_game(agent.new_player()),
        Position.start(agent.game),
        side,
        seed,
    ).play()


def _names_only_game(text: str) -> bool:
    """Return whether `text` names a game but no agent."""
    return text.partition(":")[0] in registered_games() and not is_agent_spec(text)


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
        self._start_opponent()

    def play(self) -> None:
        """Alternate moves until the person quits."""
        moves = notation_of(self.position.game).move_examples_text(self.position.game)
        self.console.print(f"you play {'X' if self.human_first else 'O'}; moves are {moves}")
        self.console.print(f"type {_HELP}")
        self._show()
        while True:
            if self.position.outcome is None and not self._human_to_move and not self._forfeited:
                self._reply()
                continue
            try:
                words = self.console.input("> ").strip()
            except (EOFError, RuntimeError):  # standard input has ended or is closed
                return
            if words.lower() in ("quit", "q", "exit"):
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
            self._make_move(self.position.parse_action(words))

    def _reply(self) -> None:
        states = self.position.state[None]
        with self.console.status(f"{self.opponent.name} is thinking"):
            action = int(self.opponent.choose(_SLOT, states, self._keys())[0])
        if action == FORFEIT_ACTION:
            self._forfeited = True
            self.console.print(f"{self.opponent.name} resigns; type new for another game")
            return
        self.console.print(f"{self.opponent.name} plays {self.position.action_name(action)}")
        self._make_move(action)

    def _keys(self) -> np.ndarray:
        numbers, plies = np.array([self.games]), np.array([self.position.ply])
        return streams.stream_keys(self.seed, 0, numbers, plies, streams.MATCH_MOVE)

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
        self._start_opponent()
        self.position = Position.start(self.position.game)
        for action in history:
            self.position = self.position.play(action)
            self.opponent.advance(_SLOT, np.array([action]))
        self._show()

    def _start_opponent(self) -> None:
        """Begin a game; hints use a separate tree, so they do not affect the opponent."""
        self.opponent.start(2 if isinstance(self.opponent, SearchPlayer) else 1)

    def _hint(self) -> None:
        """Show the agent's priors, visit shares and values for the most visited moves.

        Values are P(win) - P(loss) for the person.
        """
        if not isinstance(self.opponent, SearchPlayer):
            raise UserError(f"{self.opponent.name} has no hints: expected an agent that searches")
        if self.position.outcome is not None:
            raise UserError("the game is over: type undo or new")
        states, search = self.position.state[None], self.opponent.search
        self.opponent.reset_to_states(_HINT_SLOT, states)
        self.opponent.choose(_HINT_SLOT, states, self._keys())
        visits, values = (column[0] for column in search.root_visits_and_values(_HINT_SLOT))
        priors = search.root_priors(_HINT_SLOT)[0]
        rows: list[list[Cell]] = []
        for action in np.argsort(-visits, kind="stable")[:_HINTS]:
            if visits[action]:
                share = visits[action] / visits.sum()
                numbers = float(priors[action]), float(share), float(values[action])
                rows.append([self.position.action_name(int(action)), *numbers])
        columns: list[str | Column] = [
            "move",
            Column("prior", ".1%"),
            Column("visits", ".1%"),
            Column("value", "+.2f"),
        ]
        print_table(self.console, Table("hint", "", columns, rows))
        value = search.root_values(_HINT_SLOT)[0]
        self.console.print(f"value of the position for you: {value:+.2f} (+1: win, -1: loss)")

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
    agent = parse_agent(player, None if game is None else parse_game(game))

    def make_player(new_game: Game) -> Player:
        return (agent if new_game == agent.game else parse_agent(player, new_game)).new_player()

    engine = GtpEngine(agent.game, make_player, seed)
    if sys.stdin is not None:
        engine.serve(sys.stdin.buffer, sys.stdout.buffer)


_MAX_PORT = 65_535


def serve(
    runs: Positional[tuple[str, ...]] = (),
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    names: tuple[str, ...] = (),
    studies: str = "studies",
    tournaments: str = "tournaments",
    workers: int = 2,
    allow_training: bool = False,
    open: bool = False,
    class_: Annotated[str, tyro.conf.arg(name="class", metavar="NAMES.txt|N")] = "",
    class_links: Path | None = None,
) -> None:
    """Serve the laboratory to web browsers: play, analyse, replay, watch and compare.

    By default, only this machine can connect to the server. With --host or --names, other machines
    can also connect, and the printed address includes an access token. With --class, every
    pupil gets a personal link; the teacher's link also allows starting tournaments.

    Examples:
      zerolab serve
      zerolab serve runs other/runs --port 8000 --open
      zerolab serve --host 0.0.0.0 --allow-training
      zerolab serve --host 0.0.0.0 --class names.txt --class-links links.txt

    Args:
        runs: Runs or folders that contain runs; by default, the folder named runs.
        host: Address to listen on; 0.0.0.0 means all network interfaces.
        port: Port to listen on; 0 selects a free port.
        names: Additional host names, such as that of a reverse proxy. A proxy must set
            X-Forwarded-For (docs/web.md).
        studies: Folder that contains studies.
        tournaments: Tournament or folder that contains tournaments.
        workers: Number of search processes.
        allow_training: Allow pages to start, stop and resume runs and tournaments.
        open: Open the home page in the default browser.
        class_: File with one pupil's name per line, or the number of pupils.
        class_links: File to which the class's links are written instead of being printed; only the
            file's owner can read it.
    """
    _check(runs, port, workers)
    if class_links is not None and not class_:
        raise UserError("--class-links needs --class, as in --class NAMES.txt")
    if class_links is not None:
        check_output_path(class_links)
    try:
        import_module("websockets")  # uvicorn imports it only after the start
        from zerolab.web.classroom import Classroom, link_table, parse_pupil_names
        from zerolab.web.folders import Folders
        from zerolab.web.laboratory import Laboratory
        from zerolab.web.server import STOP_SECONDS
        from zerolab.web.server import serve as serve_laboratory
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_package("zerolab serve", error.name, "web") from error
    folders = Folders(tuple(map(Path, runs)) or (Path("runs"),), Path(studies), Path(tournaments))
    pupils = parse_pupil_names(class_) if class_ else []
    if pupils:
        make_folder(folders.classroom)
    # Two servers would overwrite each other's changes to the class.
    with lock_folder(folders.classroom) if pupils else nullcontext():
        classroom = Classroom.open(folders.classroom, pupils) if pupils else None
        laboratory = Laboratory(
            folders,
            allow_training=allow_training,
            workers=workers,
            warm_up=True,
            classroom=classroom,
        )

        def announce(address: str, token: str | None) -> None:
            links = ""
            if classroom is not None:
                base = f"https://{names[0].lower()}/" if names else address
                links = link_table(classroom.state, base)
                if class_links is not None:
                    # first, because a program may read the file as soon as the address is printed
                    write_private_text(class_links, links)
            print_lines(f"zerolab is running at {address}")
            if classroom is not None:
                if classroom.has_new_links:
                    print_lines(
                        "the class folder was moved or changed by another user, so all links have"
                        " been replaced"
                    )
                _show_links(links, class_links)
                address += f"class?token={classroom.state.teacher}"
            if token:
                for name in names:
                    print_lines(f"through a proxy, use https://{name.lower()}/?token={token}")
                print("keep this URL private: anyone who has it can connect")
            sys.stdout.flush()
            if open:
                webbrowser.open(address)

        with grace_period(STOP_SECONDS):
            serve_laboratory(laboratory, host, port, [name.lower() for name in names], announce)


def _show_links(table: str, path: Path | None) -> None:
    """Print the links of a class, or the path of the file that contains them."""
    if path is None:
        print_lines(*table.splitlines())
    else:
        print_lines(f"the class's links are in {path}")
    print("keep these links private: each is for one person only")


def _check(runs: Sequence[str], port: int, workers: int) -> None:
    for run in runs:
        if not Path(run).is_dir():
            raise UserError(f"{run} is not a folder: expected a run or a folder of runs")
    if not 0 <= port <= _MAX_PORT:
        raise UserError(f"port = {port}: expected 0 to {_MAX_PORT}")
    if not 1 <= workers <= 64:
        raise UserError(f"workers = {workers}: expected 1 to 64")
