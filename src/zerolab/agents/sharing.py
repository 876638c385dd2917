"""Agents that leave their run: made into one file, and checked when one comes in.

What a file says may have been written by anybody. `checked_agent` is the one way in: what it
returns can be played with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.agents.kinds.run import playable
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder, write_bytes
from zerolab.core.version import __version__
from zerolab.networks.catalogue import NETWORKS, NetworkSettings
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.interface import Game
from zerolab.search.settings import SearchSettings
from zerolab.store.agent_files import (
    ENDING,
    MAX_TEXT,
    AgentHeader,
    Origin,
    Source,
    StoredAgent,
    agent_digest,
    decode_agent,
    encode_agent,
    require_finite,
)
from zerolab.store.agent_names import source_folder
from zerolab.store.arrays import Arrays, file_digest
from zerolab.store.checks import digest
from zerolab.store.environments import read_environments
from zerolab.store.games import SELF_PLAY
from zerolab.store.networks import WEIGHTS, read_network
from zerolab.store.run_folder import RunFolder

_UPLOAD = "the file"


class SharedAgent(NamedTuple):
    """An agent of a file, of which everything has been checked."""

    game: Game
    network: NetworkSettings
    search: SearchSettings
    """What the network was trained with; how it plays by default."""
    weights: Arrays
    header: AgentHeader
    digest: str
    """Of everything in the file."""
    network_digest: str
    """What the network's file in its run had, which identifies the network everywhere."""


def run_as_shared(run: RunFolder, iteration: int) -> SharedAgent:
    """Return a run's network with everything that goes with it into a file.

    Raises UserError where the network is not there or damaged.
    """
    weights = run.load_weights(iteration)
    stored = read_network(run.weights_path(iteration))
    header = AgentHeader(
        game=stored.game,
        network=dict(stored.settings),
        search=playable(run).search.model_dump(mode="json"),
        origin=_origin(run, iteration),
    )
    return _checked(StoredAgent(header, weights, agent_digest(header, weights)))


def agent_file(run: RunFolder, iteration: int) -> bytes:
    """Return the content of the file that makes an agent of a run's network.

    The same network of the same run gives the same bytes. Raises UserError where the network is not
    there or damaged, and for one that is too large for a file.
    """
    shared = run_as_shared(run, iteration)
    return encode_agent(shared.header, shared.weights)


def checked_agent(content: bytes, source: str = _UPLOAD) -> SharedAgent:
    """Return the agent in the content of a file; `source` is what messages call the file.

    Raises UserError, in one line for each mistake, for whatever is wrong with it: see
    `store.agent_files.decode_agent`; a game, network or search that is not known here; weights that
    are not those of the network, or not finite.
    """
    stored = decode_agent(content, source)
    try:
        return _checked(stored)
    except UserError as error:
        raise UserError(
            "\n".join(f"{source}: {line}" for line in str(error).splitlines())
        ) from None


def keep_agent(folder: Path, content: bytes) -> Path:
    """Check an agent that came from somebody, and keep it in a folder; return its path.

    The file is named by its digest, so that an agent which comes twice is kept once. Raises
    UserError, having written nothing, for everything that `checked_agent` refuses.
    """
    path = folder / f"{checked_agent(content).digest}{ENDING}"
    if not path.is_file():
        make_folder(folder)
        write_bytes(path, content)
    return path


def _checked(stored: StoredAgent) -> SharedAgent:
    from zerolab.networks.weights import require_weights

    header = stored.header
    game = parse_game(header.game)
    if game_name(game) != header.game:
        raise UserError(f"game = {header.game}: expected {game_name(game)}")
    network = _network(header.network)
    # How much is remembered changes no move, and is not for the maker of a file to say.
    search = validate(SearchSettings, {**header.search, "cache": SearchSettings().cache})
    require_weights(network, game, stored.weights)
    require_finite(stored.weights)
    about = {"game": header.game, "iteration": header.origin.iteration, "network": header.network}
    return SharedAgent(
        game,
        network,
        search,
        stored.weights,
        header,
        stored.digest,
        file_digest(WEIGHTS, stored.weights, **about),
    )


def _network(settings: Mapping[str, Any]) -> NetworkSettings:
    name = settings.get("name")
    if not isinstance(name, str):
        raise UserError("it does not say which network its weights are of")
    kind: type[NetworkSettings] = NETWORKS[name]
    return validate(kind, settings)


def _origin(run: RunFolder, iteration: int) -> Origin:
    """Return what a run knows about where its network comes from."""
    config = run.config
    played = [
        line
        for line in run.metrics()
        if line.get("stage") == SELF_PLAY and line["iteration"] <= iteration
    ]
    return Origin(
        run=_last_name(run.path),
        run_digest=digest(json.dumps(config, sort_keys=True).encode()),
        preset=_last_name(Path(config.get("preset", ""))),
        seed=playable(run).seed,
        iteration=iteration,
        games=sum(line.get("games", 0) for line in played),
        positions=sum(line.get("positions", 0) for line in played),
        started_from=_source(config.get("start")),
        environments=tuple(
            each for each in read_environments(run.path) if each.iteration <= max(1, iteration)
        ),
        written_by=__version__,
    )


def _source(start: Any) -> Source | None:
    """Return the network that a run began with, by what its settings say."""
    if not isinstance(start, Mapping):
        return None
    folder = source_folder(str(start["source"]), start["iteration"])
    facts = {name: start[name] for name in ("iteration", "game", "digest", "transfer")}
    return Source(run=_last_name(Path(folder)), **facts)


def _last_name(path: Path) -> str:
    """Return a name without the folders above it, which are nobody else's concern."""
    name = path.absolute().name if path.parts else ""
    return "".join(each if each.isprintable() else "?" for each in name)[:MAX_TEXT]
