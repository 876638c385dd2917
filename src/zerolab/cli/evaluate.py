"""`zerolab evaluate` and `zerolab dataset`: an agent's strength, and files of solved positions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from zerolab.agents.agent import Agent
from zerolab.agents.specs import parse_agent
from zerolab.cli.output import Console, print_json, print_lines
from zerolab.cli.parse import AgentSpec, check_bounds, parse_plies
from zerolab.cli.process import advise_resuming
from zerolab.cli.progress import ProgressCallback, progress_bar
from zerolab.core.config import validate
from zerolab.core.errors import UserError, checked_whole_number, quoted
from zerolab.core.processes import available_cores
from zerolab.evaluation.accuracy import agent_accuracy_reports
from zerolab.evaluation.collecting import CollectedPositions, DatasetSettings
from zerolab.evaluation.dataset import (
    CollectionProgress,
    check_dataset_path,
    collect_in_memory,
    make_dataset,
    manifest_lines,
)
from zerolab.evaluation.opponents import (
    BASELINES,
    describe_score,
    json_value,
    perfect_play_dict,
    perfect_play_report,
    play_against_perfect,
    play_baseline,
    print_accuracy,
    print_perfect_play,
    save_accuracy_figure,
)
from zerolab.evaluation.positions import SolvedPositions, max_position_count, read_positions
from zerolab.evaluation.public_sets import DEFAULT_GAME, PublicSet, is_text_set, read_public_set
from zerolab.evaluation.solved_sets import (
    SetAccuracy,
    error_tables,
    public_set_name,
    require_file_of_set,
    solve_set,
    solved_set_cache_folder,
    solved_set_lines,
    write_solved_set,
)
from zerolab.oracles.oracle import NotSolvedError
from zerolab.oracles.solver import SolverBudget, is_solved_by_bitbully, oracle_for
from zerolab.play.pairings import check_opening_length
from zerolab.report.figures import check_figure_path
from zerolab.report.text import print_table
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.rules import Game

_QUICK_POSITIONS = 200
_QUICK_BUDGET = SolverBudget(nodes=2_000_000)
_MAX_GAMES = 1_000_000
_MAX_OPENINGS = 1000


def evaluate(
    player: AgentSpec,
    *,
    positions: tuple[Path, ...] = (),
    against: Literal["perfect"] | None = None,
    game: str | None = None,
    games: int = 40,
    openings: int = 0,
    nodes: int = 200_000_000,
    seed: int = 0,
    figure: Path | None = None,
    json: bool = False,
) -> None:
    """Measure an agent's accuracy on solved positions or its score against opponents.

    With --positions, compare the agent's moves in solved positions with the exact values of all
    moves. The positions in public test sets are solved first, which can take minutes, and the
    published scores are compared with the solver's; the result is cached. For a test set, or for
    several files, the command prints the share of errors, with one row per file. With --against
    perfect, the agent faces perfect play. With neither, it faces baseline opponents, and accuracy
    is measured on a few positions if the game can be solved quickly.

    Examples:
      zerolab evaluate runs/demo
      zerolab evaluate runs/demo@4 --positions connect_four-6x7-2000.parquet --figure accuracy.png
      zerolab evaluate 'runs/demo?simulations=600' --positions Test_L1_R1 Test_L1_R2 Test_L1_R3
      zerolab evaluate mcts:400 --game othello:6x6 --against perfect --openings 20

    Args:
        player: Run such as runs/demo or runs/demo@12, or one of {agents}.
        positions: Files written by zerolab dataset, or public test sets: lines of moves and a score
            such as "4455 18", as published by Pons, or JSON lines as on Kaggle
            (docs/evaluation.md).
        against: Play against perfect play and count blunders, which are moves that worsen the
            result.
        game: Game to play, for agents that can play any game.
        games: Number of games per opponent; the agent moves first in half of them.
        openings: Number of random opening plies; each opening is played with both colours.
        nodes: Maximum number of nodes that the solver searches per position for perfect play; not
            for BitBully.
        seed: Seed of all random streams.
        figure: File for a plot of accuracy by ply, such as accuracy.png.
        json: Print JSON instead of tables.
    """
    if not 2 <= games <= _MAX_GAMES or games % 2:
        raise UserError(f"games = {quoted(games)}: expected an even number from 2 to {_MAX_GAMES}")
    check_bounds("openings", openings, _MAX_OPENINGS, minimum=0)
    checked_whole_number("nodes", nodes, minimum=1)
    checked_whole_number("seed", seed)
    if against is None:
        unused = {"nodes": nodes, **({"games": games, "openings": openings} if positions else {})}
        _require_defaults(evaluate, unused, "here: expected --against perfect too")
    if figure is not None:
        _check_figure(figure, positions, measured=against is None or bool(positions))
    files = _read_files(positions, player, game)
    file_game = files[0].game if files else None
    agent = parse_agent(player, parse_game(game) if game is not None else file_game)
    check_opening_length(agent.game, openings)
    if against is not None and is_solved_by_bitbully(agent.game):
        _require_defaults(evaluate, {"nodes": nodes}, "with BitBully")
    result: dict[str, Any] = {"player": agent.name, "game": game_name(agent.game), "seed": seed}
    console = Console(quiet=json)
    console.print(f"{agent.name}, {result['game']}")
    if against is not None:
        result["against_perfect"] = _against_perfect(console, agent, nodes, games, openings, seed)
    elif not files:
        result["matches"] = _against_baselines(console, agent, games, openings, seed)
        collection = _collect_solved_positions(console, agent.game, seed)
        if collection is not None:
            files = [collection.positions]
            result["not_solved"] = collection.counts.unsolved
        elif figure is not None:
            print_lines(f"{figure} is not written, because accuracy is not measured", error=True)
    if len(files) == 1 and isinstance(files[0], SolvedPositions):
        result["accuracy"] = _accuracy(console, agent, files[0], seed, figure)
    elif files:
        result["sets"] = _errors(console, agent, positions, files, seed, figure)
    if json:
        print_json(result)


def _check_figure(figure: Path, positions: Sequence[Path], *, measured: bool) -> None:
    if not measured:
        raise UserError(
            f"--figure {quoted(figure)} shows accuracy on solved positions, which --against does"
            " not measure: expected --positions too"
        )
    check_figure_path(figure)
    if len(positions) > 1:
        raise UserError(
            f"--figure {quoted(figure)} shows only one file: expected a single file of positions"
        )


def _read_files(
    paths: Sequence[Path], player: str, game: str | None
) -> list[SolvedPositions | PublicSet]:
    """Return the content of all files, which must be for one game.

    The game is `game`, or else the player's game, or else that of the first file.
    """
    common = parse_game(game) if game is not None else _game_of(player) if paths else None
    files: list[SolvedPositions | PublicSet] = []
    for path in paths:
        if is_text_set(path):
            files.append(read_public_set(path, common or parse_game(DEFAULT_GAME)))
        else:
            files.append(read_positions(path, common)[0])
        if not len(files[-1]):
            raise UserError(f"{quoted(path)} contains no positions: expected at least one")
        common = files[-1].game
    return files


def _game_of(player: str) -> Game | None:
    """Return the game of a run or of another player with a fixed game, or None."""
    try:
        return parse_agent(player).game
    except UserError:  # other errors are raised again when the agent is parsed with a game
        return None


def _against_perfect(
    console: Console, agent: Agent, nodes: int, games: int, openings: int, seed: int
) -> dict[str, Any]:
    oracle = oracle_for(agent.game, SolverBudget(nodes=nodes))
    with progress_bar("against perfect play", games, "games") as update:
        played, moves = play_against_perfect(
            agent.game, agent, oracle, games, openings, seed, update
        )
    report = perfect_play_report(played, moves)
    print_perfect_play(console, report)
    return {"games": games, "openings": openings, **perfect_play_dict(report)}


def _against_baselines(
    console: Console, agent: Agent, games: int, openings: int, seed: int
) -> list[dict[str, Any]]:
    matches = []
    for opponent in BASELINES:
        with progress_bar(f"against {opponent}", games, "games") as update:
            pair = play_baseline(agent, opponent, games, openings, seed, update)
        console.print(f"against {opponent}: {describe_score(pair)}")
        matches.append({"opponent": opponent, **pair.as_dict(), "openings": openings})
    return matches


def _collect_solved_positions(console: Console, game: Game, seed: int) -> CollectedPositions | None:
    """Return a few solved positions if solving is fast, and print the number of unsolved ones."""
    try:
        oracle = oracle_for(game, _QUICK_BUDGET)
        settings = DatasetSettings(seed=seed, one_per_game=True)
        collection = collect_in_memory(game, _QUICK_POSITIONS, settings, oracle)
    except NotSolvedError:
        console.print(
            f"{game_name(game)} cannot be solved quickly: to measure accuracy, pass to --positions"
            f" the file written by zerolab dataset {game_name(game)} --positions 1000 --plies LOW:"
        )
        return None
    except UserError as error:  # a missing extra
        console.print(f"accuracy is not measured: {error}")
        return None
    if unsolved := collection.counts.unsolved:
        console.print(
            f"left out {unsolved} {'position' if unsolved == 1 else 'positions'} not solved within"
            f" {_QUICK_BUDGET.nodes:,} nodes, from {collection.counts.games} games"
        )
    return collection


def _accuracy(
    console: Console, agent: Agent, solved: SolvedPositions, seed: int, figure: Path | None
) -> dict[str, Any]:
    with progress_bar("choosing moves", len(solved), "positions") as update:
        reports = agent_accuracy_reports(agent, solved, seed, update)
    games = len(set(solved.game_numbers.tolist()))
    console.print(f"{len(solved)} solved positions from {games} games, with 95 % intervals")
    print_accuracy(console, reports)
    if figure is not None:
        save_accuracy_figure(figure, f"{agent.name}, {game_name(agent.game)}", reports)
        console.print(str(figure))
    return {"positions": len(solved), "games": games, "players": json_value(reports)}


def _errors(
    console: Console,
    agent: Agent,
    paths: Sequence[Path],
    files: Sequence[SolvedPositions | PublicSet],
    seed: int,
    figure: Path | None,
) -> list[dict[str, Any]]:
    """Measure the agent on every file, and print the error rates with one row per file."""
    solved = [solve_public_set(each) if isinstance(each, PublicSet) else each for each in files]
    results = []
    for path, file, positions in zip(paths, files, solved, strict=True):
        name = public_set_name(file) if isinstance(file, PublicSet) else path.name
        with progress_bar(f"choosing moves in {name}", len(positions), "positions") as update:
            reports = agent_accuracy_reports(agent, positions, seed, update)
        results.append(SetAccuracy(path.name, name, len(positions), reports))
        if figure is not None:
            save_accuracy_figure(figure, f"{agent.name}, {name}", reports)
            console.print(str(figure))
    for table in error_tables(results, getattr(agent.search_settings, "simulations", None)):
        print_table(console, table)
    return [each.as_dict() for each in results]


_MAX_POSITIONS = 30_000_000
_MAX_PROCESSES = 1024


def dataset(
    game: tyro.conf.Positional[str | None] = None,
    *,
    positions: int | None = None,
    from_: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None,
    perfect: float = 0.5,
    one_per_game: bool = False,
    plies: Annotated[str, tyro.conf.arg(metavar="LOW:HIGH")] = "0:",
    nodes: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    processes: int | None = None,
    json: bool = False,
) -> None:
    """Write a Parquet file of solved positions and a manifest.

    The positions come from games in which each ply is either a best move or a random move. The file
    contains no duplicate or symmetric positions, and no positions in which every move is a best
    move. Repeat the command to resume it.

    With --from, the positions come from a public test set. Every line is checked, and its score is
    compared with the solver's.

    Examples:
      zerolab dataset connect_four:5x5 --positions 10000 --one-per-game
      zerolab dataset othello:6x6 --positions 1000 --plies 20:
      zerolab dataset --from Test_L1_R1

    Args:
        game: Game, such as othello:6x6; with --from, connect_four:6x7 by default.
        positions: Number of positions to collect.
        from_: Public test set to solve: lines of moves and a score, such as "4455 18", as
            published by Pons, or JSON lines as on Kaggle (docs/evaluation.md).
        perfect: Probability that a ply is a best move; all other plies are random.
        one_per_game: Collect one position from each game instead of all positions.
        plies: Plies LOW to HIGH from which to collect, such as 20: or 8:30. Moves before LOW are
            random, and positions before LOW are not solved, so games that are too hard to solve
            from the start can be used.
        nodes: Maximum number of nodes for solving a position; unsolved positions are skipped. No
            limit by default; not for BitBully.
        seed: Seed of all random streams.
        out: File to write; GAME-POSITIONS.parquet or GAME-FILE.parquet by default.
        processes: Number of processes; one per core by default.
        json: Print the manifest instead of a summary.
    """
    workers = processes if processes is not None else available_cores()
    check_bounds("processes", workers, _MAX_PROCESSES)
    if from_ is not None:
        unused = {
            "positions": positions, "perfect": perfect, "one_per_game": one_per_game,
            "plies": plies, "nodes": nodes, "seed": seed,
        }  # fmt: skip
        _require_defaults(dataset, unused, "with --from: expected only one of them")
        _write_public_set(from_, game or DEFAULT_GAME, out, workers, json)
        return
    if game is None or positions is None:
        raise UserError("expected a game and --positions N, or --from FILE")
    parsed_game = parse_game(game)
    check_bounds("positions", positions, min(_MAX_POSITIONS, max_position_count(parsed_game)))
    if is_solved_by_bitbully(parsed_game):
        _require_defaults(dataset, {"nodes": nodes}, "with BitBully")
    options = {"seed": seed, "perfect": perfect, "one_per_game": one_per_game, "nodes": nodes}
    settings = validate(DatasetSettings, {**options, **parse_plies(plies)})
    name = game_name(parsed_game)
    path = out or Path(f"{name.replace(':', '-')}-{positions}.parquet")
    check_dataset_path(path)
    with (
        advise_resuming("finished chunks are saved", "the same command"),
        progress_bar(f"solving {name}", positions, "positions") as update,
    ):
        manifest = make_dataset(
            parsed_game, positions, settings, path, workers,
            lambda progress: _show_collection(update, progress),
        )  # fmt: skip
    if json:
        print_json(manifest)
    else:
        print_lines(*manifest_lines(path, manifest))


def _require_defaults(
    command: Callable[..., None], options: Mapping[str, object], note: str
) -> None:
    """Raise UserError if an option that has no effect differs from its default."""
    parameters = inspect.signature(command).parameters
    for name, value in options.items():
        if value != parameters[name].default:
            raise UserError(f"--{name.replace('_', '-')} has no effect {note}")


def _write_public_set(
    source: Path, game: str, out: Path | None, processes: int, as_json: bool
) -> None:
    """Solve a public test set and write its positions and manifest."""
    public = read_public_set(source, parse_game(game))
    path = out or Path(f"{game_name(public.game).replace(':', '-')}-{source.stem}.parquet")
    check_dataset_path(path)
    require_file_of_set(path, public)
    manifest = write_solved_set(path, public, solve_public_set(public, processes))
    if as_json:
        print_json(manifest)
    else:
        print_lines(*solved_set_lines(path, manifest))


def solve_public_set(public: PublicSet, processes: int | None = None) -> SolvedPositions:
    """Return the solved positions of a test set, from the cache if possible, showing progress."""
    with (
        advise_resuming("solved positions are cached", "the same command"),
        progress_bar(f"solving {public.path.name}", len(public), "positions") as update,
    ):
        workers = processes or available_cores()
        return solve_set(
            public, workers, lambda done: update(done, ""), folder=solved_set_cache_folder()
        )


def _show_collection(update: ProgressCallback, progress: CollectionProgress) -> None:
    unsolved = progress.counts.unsolved
    note = f", {unsolved} too hard" if unsolved else ""
    update(progress.position_count, f"{progress.counts.games} games{note}")
