"""``FILE.zerolab[?OPTIONS]``: an agent in a file, which ``zerolab export`` has written."""

from __future__ import annotations

import re
from pathlib import Path

from zerolab.agents.interface import AGENT_KINDS, Access, Agent
from zerolab.agents.network_agent import KeptNetwork, network_agent
from zerolab.agents.options import NetworkOptions, parse_options, split_options
from zerolab.agents.sharing import SharedAgent, checked_agent
from zerolab.core.errors import UserError, nearest, quoted
from zerolab.core.files import check_path, read_limited
from zerolab.rules.interface import Game
from zerolab.store.agent_files import ENDING, MAX_BYTES
from zerolab.store.agent_names import canonical_folder
from zerolab.store.arrays import Arrays

_SHOWN_DIGITS = 8
_HEAD = re.compile(rf"(?P<path>.*{re.escape(ENDING)})(@(?P<digest>[0-9a-f]+))?", re.DOTALL)


def names_file(head: str) -> bool:
    """Return whether a spec without its options names a file, with or without the digest."""
    return ENDING in (Path(head).suffix, Path(head.rpartition("@")[0]).suffix)


def read_file(head: str) -> tuple[Path, SharedAgent]:
    """Return the path and the agent of ``FILE.zerolab[@DIGEST]``.

    Raises UserError where there is no such file, it is not a sound agent, or its digest is another
    one.
    """
    found = _HEAD.fullmatch(head)
    if found is None:
        raise UserError(
            f"{quoted(head)}: expected a file ending in {ENDING}, and digits of its digest after @"
            f" if any, as in agent{ENDING}@3f2a9c1d"
        )
    path = Path(found["path"])
    _require_there(path)
    agent = checked_agent(read_limited(path, MAX_BYTES), quoted(path))
    if not agent.digest.startswith(found["digest"] or ""):
        raise UserError(
            f"{quoted(path)} has the digest {agent.digest[:_SHOWN_DIGITS]}, not {found['digest']}:"
            " it is another agent by now"
        )
    return path, agent


def _require_there(path: Path) -> None:
    """Raise UserError, with the nearest name beside it, for a file that is missing."""
    check_path(path)
    if path.exists():
        return
    folder = path.parent
    beside = folder.glob(f"*{ENDING}") if folder.is_dir() else ()
    raise UserError(
        f"{quoted(path)} is not there: expected a file that zerolab export has written"
        f"{nearest(path.name, (each.name for each in beside))}"
    )


def _name(path: Path, agent: SharedAgent) -> str:
    """Return the canonical spec: one name never stands for two networks."""
    place = canonical_folder(path)
    prefix = "file:" if ":" in place else ""  # mcts:9.zerolab would be another kind of agent
    return f"{prefix}{place}@{agent.digest[:_SHOWN_DIGITS]}"


class _File:
    form = f"FILE{ENDING}"
    access: Access = "path"

    def game(self, argument: str) -> Game:
        """See `AgentKind.game`."""
        return read_file(split_options(argument)[0])[1].game

    def agent(self, argument: str, game: Game) -> Agent:
        """See `AgentKind.agent`."""
        head, text = split_options(argument)
        path, agent = read_file(head)
        options = parse_options(NetworkOptions, text, agent.search)

        def load() -> Arrays:
            return read_file(f"{path}@{agent.digest}")[1].weights

        kept = KeptNetwork(
            _name(path, agent), agent.game, agent.network, agent.search, agent.network_digest, load
        )
        return network_agent(kept, options)


AGENT_KINDS.add("file", _File())
