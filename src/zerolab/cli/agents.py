"""`zerolab agents`: agents in this package and in files, their cards, and checks of the cards."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import tyro

from zerolab.agents.agent import AGENT_KINDS, Agent, split_options
from zerolab.agents.file_agents import (
    StoredAgent,
    StoredAgentKind,
    are_equal_in_half_precision,
    shipped_names,
)
from zerolab.agents.run_agents import find_run_and_iteration
from zerolab.agents.specs import (
    agent_kind_and_argument,
    fixed_game,
    parse_agent,
    parse_agents,
    require_public_agent,
)
from zerolab.cli.output import Console, print_json, print_lines
from zerolab.cli.parse import AgentSpec, check_bounds, parse_plies
from zerolab.cli.progress import format_duration, progress_bar
from zerolab.core import __version__
from zerolab.core.config import validate
from zerolab.core.errors import DisagreementError, UserError, checked_whole_number, quoted
from zerolab.core.files import check_output_path
from zerolab.evaluation.cards import (
    AgentCard,
    AgentWithCard,
    CardAccuracy,
    CardComparison,
    CardPerfectPlay,
    TrainingSummary,
    card_measured_shares,
    card_path,
    compare_cards,
    measure_accuracy,
    measure_match,
    measure_perfect_play,
    read_agent_with_card,
    remeasure,
    write_card,
)
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import dataset_command
from zerolab.oracles.oracle import NotSolvedError
from zerolab.play.pairings import check_opening_length
from zerolab.report.table import Cell, Column, Interval, Table, table_from_columns
from zerolab.report.text import print_table
from zerolab.rules.catalogue import game_name
from zerolab.store.arrays import AGENT_SUFFIX

_OPPONENTS = ("mcts:100?tie_break=random", "mcts:1000?tie_break=random")
_MAX_POSITIONS = 1_000_000
_MAX_GAMES = 1_000_000
_MAX_OPENINGS = 1000
_PERFECT_NODES = 200_000_000
_NOT_IN_TABLE = ("weak moves", "second against")

_Opponents = Annotated[tuple[str, ...], tyro.conf.arg(metavar="AGENT")]


def split_subcommand(arguments: list[str]) -> tuple[Callable[..., None], str, list[str]]:
    """Return the function to call, the name of its command, and the remaining arguments."""
    if arguments[:1] == ["card"]:
        return write_agent_and_card, "agents card", arguments[1:]
    return agents, "agents", arguments


def agents(
    name: tyro.conf.Positional[str] = "", *, verify: bool = False, json: bool = False
) -> None:
    """List the agents in this package, or show the card of an agent.

    A card says how an agent was trained and how strong it is, with the settings of every
    measurement. With --verify, the command repeats the measurements, which takes up to an hour, and
    reports which numbers agree, meaning that their intervals overlap. It exits with code 1 if any
    do not.

    To write an agent together with its card, use zerolab agents card RUN FILE.zerolab.

    Examples:
      zerolab agents
      zerolab agents connect-four
      zerolab agents --verify othello-6x6
      zerolab agents mine.zerolab --verify --json

    Args:
        name: Agent in this package, or a .zerolab file with its card next to it; by default, all
            agents in this package.
        verify: Repeat the measurements on the cards.
        json: Print JSON instead of tables.
    """
    if verify:
        names = [name] if name else shipped_names()
        _verify([read_agent_with_card(_find(each)) for each in names], json)
        return
    listed = [read_agent_with_card(_find(name))] if name else list(listed_agents())
    if json:
        print_json([_as_json(each) for each in listed])
    elif name:
        _show(listed[0])
    elif listed:
        print_table(Console(), agents_table(listed))
    else:
        print("this package has no agents; train one with: zerolab train")


def _find(name: str) -> StoredAgent:
    """Return the agent with the given name, from this package or from a file."""
    kind, argument = (
        (AGENT_KINDS["shipped"], name) if name in shipped_names() else agent_kind_and_argument(name)
    )
    head, options = split_options(argument)
    if not isinstance(kind, StoredAgentKind) or options is not None:
        raise UserError(
            f"{quoted(name)} has no card: expected a name listed by zerolab agents, or a .zerolab"
            " file"
        )
    return kind.read_agent(head)


def listed_agents() -> Iterator[AgentWithCard]:
    """Yield the agents in this package; report and skip damaged ones."""
    for name in shipped_names():
        try:
            yield read_agent_with_card(_find(name))
        except UserError as error:
            print_lines(f"skipped: {error}", error=True)


def agents_table(listed: Sequence[AgentWithCard]) -> Table:
    """Return the table of agents with the most important numbers on their cards."""
    shares = [each.measured_shares for each in listed]
    shown = dict.fromkeys(
        what for each in shares for what in each if not what.startswith(_NOT_IN_TABLE)
    )
    columns: dict[Column, Sequence[Cell]] = {
        Column("agent"): [each.name for each in listed],
        Column("game"): [each.game for each in listed],
        Column("KiB", ",.0f"): [each.size_bytes / 1024 for each in listed],
        Column("simulations", ","): [each.simulations for each in listed],
        **{
            Column(what, ".1%"): [each[what].interval if what in each else None for each in shares]
            for what in shown
        },
        Column("hours of training", ".1f"): [
            each.card.training.hours if each.card else None for each in listed
        ],
    }
    return table_from_columns("agents", columns)


def _as_json(listed: AgentWithCard) -> dict[str, Any]:
    return {
        "name": listed.name,
        "spec": listed.stored_agent.name,
        "game": listed.game,
        "digest": listed.stored_agent.agent.digest,
        "bytes": listed.size_bytes,
        "simulations": listed.simulations,
        "card": None if listed.card is None else listed.card.model_dump(mode="json"),
    }


def _show(listed: AgentWithCard) -> None:
    """Print the card of an agent in full."""
    console = Console()
    stored, size = listed.stored_agent, f"{listed.size_bytes / 1024:,.0f} KiB"
    console.print(f"{stored.name}: {listed.game}, {size}, digest {stored.agent.digest}")
    if listed.card is None:
        console.print(f"no card: expected {quoted(card_path(stored.path))}")
        return
    card = listed.card
    for line in _training_lines(card.training):
        console.print(line)
    if card.options:
        console.print(f"searches as in training, except for {card.options}")
    console.print(f"measured on {card.measured}, with {card.simulations:,} simulations per move")
    rows: list[list[Cell]] = [
        [what, share.interval, share.samples] for what, share in card_measured_shares(card)
    ]
    columns: list[str | Column] = ["", Column("share", ".1%"), Column("samples", ",")]
    print_table(console, Table("card", "", columns, rows))
    for line in _setting_lines(card):
        console.print(line)


def _training_lines(training: TrainingSummary) -> Iterator[str]:
    yield (
        f"trained for {format_duration(3600 * training.hours)}: network of iteration"
        f" {training.iterations:,}, {training.games:,} games, {training.positions:,} positions"
    )
    for each in training.environments:
        hardware = ", ".join(filter(None, (each.processor, each.device)))
        yield (
            f"on {each.threads} cores of {hardware}, with zerolab {each.zerolab} and torch"
            f" {each.torch}"
        )
    yield f"train a similar agent with: {training.command}"


def _setting_lines(card: AgentCard) -> Iterator[str]:
    """Yield the settings of the measurements."""
    if card.accuracy is not None:
        command = shlex.join(
            dataset_command(card.game, card.accuracy.positions, card.accuracy.dataset)
        )
        yield f"positions: {command}, digest {card.accuracy.digest}"
    if card.perfect_play is not None:
        games = card.perfect_play
        yield f"perfect: {games.games} games with {games.openings} random plies, seed {games.seed}"
    for match in card.matches:
        yield (
            f"{match.opponent}: {match.wins} won, {match.draws} drawn, {match.losses} lost of"
            f" {match.games} games with {match.openings} random plies, seed {match.seed}"
        )


def _verify(listed: Sequence[AgentWithCard], json: bool) -> None:
    """Repeat the measurements of cards; raise DisagreementError if a number does not agree."""
    results: dict[str, list[CardComparison]] = {}
    console = Console(quiet=json)
    cards = [(each, _required_card(each)) for each in listed]
    for each, stated in cards:
        agent = parse_agent(f"file:{each.stored_agent.path}")
        compared = compare_cards(stated, remeasure(stated, agent, progress_bar))
        results[each.name] = compared
        rows: list[list[Cell]] = [
            [number.quantity, number.stated, number.measured, "yes" if number.agrees else "no"]
            for number in compared
        ]
        columns: list[str | Column] = [
            each.name, Column("card", ".1%"), Column("measured again", ".1%"), "agrees",
        ]  # fmt: skip
        print_table(console, Table("verification", "", columns, rows))
    if json:
        print_json(
            {name: list(map(_comparison_dict, compared)) for name, compared in results.items()}
        )
    wrong = {name: sum(not each.agrees for each in compared) for name, compared in results.items()}
    if any(wrong.values()):
        numbers = ", ".join(f"{count} for {name}" for name, count in wrong.items() if count)
        raise DisagreementError(f"numbers that do not agree with the card: {numbers}")


def _comparison_dict(compared: CardComparison) -> dict[str, Any]:
    fields = compared._asdict().items()
    return {name: each._asdict() if isinstance(each, Interval) else each for name, each in fields}


def _required_card(agent: AgentWithCard) -> AgentCard:
    if agent.card is None:
        path = agent.stored_agent.path
        raise UserError(f"{quoted(path)} has no card: expected {quoted(card_path(path))}")
    return agent.card


def write_agent_and_card(
    run: AgentSpec,
    file: tyro.conf.Positional[Path],
    *,
    positions: int = 1000,
    plies: Annotated[str, tyro.conf.arg(metavar="LOW:HIGH")] = "0:",
    against: _Opponents = _OPPONENTS,
    games: int = 200,
    openings: int = 2,
    perfect: int = 0,
    seed: int = 0,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write an agent and its card, which says how the agent was trained and how strong it is.

    The command exports the network of a run to FILE.zerolab in half precision if that file does not
    exist, measures the agent in the file, and writes the card to FILE.toml. Anyone who has both
    files can repeat the measurements with zerolab agents FILE.zerolab --verify.

    Examples:
      zerolab agents card runs/demo connect-four.zerolab --perfect 100
      zerolab agents card runs/eight othello.zerolab --plies 46: --positions 500
      zerolab agents card 'runs/demo@4?simulations=400' mine.zerolab --positions 0

    Args:
        run: Run such as runs/demo or runs/demo@12. Options change the agent's search, as in
            runs/demo?simulations=400; by default, it searches as in training.
        file: File of the agent, ending in .zerolab.
        positions: Number of solved positions, one per game, for measuring accuracy; 0 for none. If
            the game is too hard to solve, accuracy is not measured.
        plies: Plies from which the positions come; give a lower limit, such as 20:, for a game that
            is too hard to solve from the start.
        against: Opponents that are available to everyone, such as mcts:1000; runs, files and
            programs are not allowed.
        games: Number of games per opponent; the agent moves first in half of them.
        openings: Number of random opening plies; each opening is played with both colours.
        perfect: Number of games against perfect play, from the start position; 0 for none.
        seed: Seed for positions, openings and random choices.
        overwrite: Replace existing files.
        json: Print the card as JSON.
    """
    check_bounds("positions", positions, _MAX_POSITIONS, minimum=0)
    check_bounds("openings", openings, _MAX_OPENINGS, minimum=0)
    checked_whole_number("seed", seed)
    for option, value, least in (("games", games, 2), ("perfect", perfect, 0)):
        if not least <= value <= _MAX_GAMES or value % 2:
            raise UserError(
                f"{option} = {quoted(value)}: expected an even number from {least} to {_MAX_GAMES}"
            )
    dataset = validate(DatasetSettings, {"seed": seed, "one_per_game": True, **parse_plies(plies)})
    if (game := fixed_game(run)) is not None:
        parse_agents(against, game)
        check_opening_length(game, openings)
    if twice := [each for each in against if against.count(each) > 1]:
        raise UserError(f"against: {quoted(twice[0])} is listed twice: expected each opponent once")
    for opponent in against:
        require_public_agent(opponent)
    stored, training = _exported(run, file, overwrite)
    agent = parse_agent(f"file:{file}")
    result = AgentCard(
        digest=stored.agent.digest,
        game=game_name(agent.game),
        options=split_options(run)[1] or "",
        simulations=getattr(agent.search_settings, "simulations", 0),
        measured=date.today(),
        zerolab=__version__,
        training=training,
        accuracy=_accuracy(agent, positions, dataset, seed),
        perfect_play=_perfect_play(agent, perfect, seed),
        matches=tuple(
            measure_match(agent, opponent, games, openings, seed, progress_bar)
            for opponent in against
        ),
    )
    write_card(file, result)
    if json:
        print_json(result.model_dump(mode="json"))
    else:
        _show(AgentWithCard(stored, result))


def _exported(run: str, file: Path, overwrite: bool) -> tuple[StoredAgent, TrainingSummary]:
    """Export a run's agent if necessary; return the stored agent and a summary of its training."""
    from zerolab.agents.exporting import export_to_file, load_agent
    from zerolab.training.costs import training_summary

    kind, argument = agent_kind_and_argument(run)
    if kind is not AGENT_KINDS["run"]:
        raise UserError(f"{quoted(run)} is not a run: expected RUN or RUN@N, as in runs/demo@12")
    folder, _ = find_run_and_iteration(split_options(argument)[0])
    agent = load_agent(run)
    if file.suffix != AGENT_SUFFIX:
        raise UserError(f"{quoted(file)}: expected a file ending in {AGENT_SUFFIX}")
    path = card_path(file)
    check_output_path(path)
    if path.exists() and not overwrite:
        raise UserError(f"{quoted(path)} exists: expected a different file, or --overwrite")
    if overwrite or not file.exists():
        export_to_file(run, file, half=True, overwrite=overwrite)
    stored = _find(f"file:{file}")
    if not are_equal_in_half_precision(stored.agent, agent):
        raise UserError(
            f"{quoted(file)} contains a different agent than {run}: expected another file name, or"
            " --overwrite"
        )
    return stored, training_summary(folder, agent.header.origin)


def _perfect_play(agent: Agent, games: int, seed: int) -> CardPerfectPlay | None:
    if not games:
        return None
    try:
        return measure_perfect_play(agent, games, 0, seed, _PERFECT_NODES, progress_bar)
    except NotSolvedError:
        print_lines(
            "perfect play was not measured: the game is too hard to solve from the start",
            error=True,
        )
        return None


def _accuracy(
    agent: Agent, positions: int, dataset: DatasetSettings, seed: int
) -> CardAccuracy | None:
    if not positions:
        return None
    try:
        return measure_accuracy(agent, positions, dataset, seed, progress_bar)
    except NotSolvedError as error:
        print_lines(f"accuracy was not measured: {error}", error=True)
        return None
