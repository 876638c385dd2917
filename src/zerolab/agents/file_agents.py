"""Agents in files, with specs of the form ``FILE.zerolab[?OPTIONS]``.

Agent files are exported from runs and can come from untrusted sources. `parse_agent_file` validates
all of them and returns only agents that are safe to use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.agents.agent import (
    AGENT_KINDS,
    Agent,
    AgentKind,
    ExternalAccess,
    NetworkOptions,
    parse_search_options,
    split_options,
)
from zerolab.agents.run_agents import StoredNetwork, names_run, network_agent, read_play_settings
from zerolab.core import __version__
from zerolab.core.config import validate
from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.files import check_path, make_folder, read_limited, write_bytes
from zerolab.networks.catalogue import NETWORKS, NetworkSettings, require_matching_weights
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.rules import Game
from zerolab.search.search_settings import SearchSettings
from zerolab.store.arrays import (
    AGENT_SUFFIX,
    MAX_AGENT_BYTES,
    MAX_TEXT,
    WEIGHTS,
    AgentFile,
    AgentHeader,
    AgentOrigin,
    Arrays,
    SourceNetwork,
    agent_digest,
    decode_agent,
    encode_agent,
    read_network_file,
    require_finite_weights,
    saved_arrays_digest,
)
from zerolab.store.checks import hex_digest
from zerolab.store.folder import read_environments
from zerolab.store.games import SELF_PLAY, canonical_folder, source_run_folder
from zerolab.store.run_folder import RunFolder

_UPLOAD = "the file"


class SharedAgent(NamedTuple):
    """Validated agent from an agent file."""

    game: Game
    network_settings: NetworkSettings
    search_settings: SearchSettings
    """Search settings used in training, which are also the default for play."""
    weights: Arrays
    header: AgentHeader
    digest: str
    """Digest of the whole file."""
    network_digest: str
    """Digest of the network file in the run, which identifies the network in runs and files."""


def shared_agent_of_run(run: RunFolder, iteration: int) -> SharedAgent:
    """Return a run's network as an agent file would contain it.

    Raises UserError if the network is missing or damaged.
    """
    weights = run.load_weights(iteration)
    stored = read_network_file(run.weights_path(iteration))
    header = AgentHeader(
        game=stored.game,
        network=dict(stored.settings),
        search=read_play_settings(run).search.model_dump(mode="json"),
        origin=_origin(run, iteration),
    )
    return _checked(AgentFile(header, weights, agent_digest(header, weights)))


def encode_agent_of_run(run: RunFolder, iteration: int) -> bytes:
    """Return the content of an agent file with a run's network.

    The content is deterministic. Raises UserError if the network is missing, damaged or too large
    for a file.
    """
    shared = shared_agent_of_run(run, iteration)
    return encode_agent(shared.header, shared.weights)


def parse_agent_file(content: bytes, source: str = _UPLOAD) -> SharedAgent:
    """Return the agent in the content of an agent file; error messages call the file `source`.

    Raises UserError, with one line per error, if `store.arrays.decode_agent` fails, if the game,
    network or search is unknown, or if the weights do not fit the network or are not finite.
    """
    stored = decode_agent(content, source)
    try:
        return _checked(stored)
    except UserError as error:
        raise UserError(
            "\n".join(f"{source}: {line}" for line in str(error).splitlines())
        ) from None


def save_uploaded_agent(folder: Path, content: bytes) -> Path:
    """Validate an uploaded agent, store it in a folder, and return the path of the file.

    The file is named after its digest, so repeated uploads of an agent are stored only once. Raises
    UserError, without writing anything, for content rejected by `parse_agent_file`.
    """
    path = folder / f"{parse_agent_file(content).digest}{AGENT_SUFFIX}"
    if not path.is_file():
        make_folder(folder)
        write_bytes(path, content)
    return path


def _checked(stored: AgentFile) -> SharedAgent:
    header = stored.header
    game = parse_game(header.game)
    if game_name(game) != header.game:
        raise UserError(f"game = {header.game}: expected {game_name(game)}")
    network = _network(header.network)
    # The cache size does not affect moves, and an untrusted file must not control it.
    search = validate(SearchSettings, {**header.search, "cache": SearchSettings().cache})
    require_matching_weights(network, game, stored.weights)
    require_finite_weights(stored.weights)
    facts = {"game": header.game, "iteration": header.origin.iteration, "network": header.network}
    return SharedAgent(
        game,
        network,
        search,
        stored.weights,
        header,
        stored.digest,
        saved_arrays_digest(WEIGHTS, stored.weights, **facts),
    )


def _network(settings: Mapping[str, Any]) -> NetworkSettings:
    name = settings.get("name")
    if not isinstance(name, str):
        raise UserError("network: no name; expected the settings of the network")
    kind: type[NetworkSettings] = NETWORKS[name]
    return validate(kind, settings)


def _origin(run: RunFolder, iteration: int) -> AgentOrigin:
    """Return the origin of a network, from the records of its run."""
    config = run.config
    self_play = [
        line
        for line in run.metrics()
        if line.get("stage") == SELF_PLAY and line["iteration"] <= iteration
    ]
    return AgentOrigin(
        run=_last_name(run.path),
        run_digest=hex_digest(json.dumps(config, sort_keys=True).encode()),
        preset=_last_name(Path(config.get("preset", ""))),
        seed=read_play_settings(run).seed,
        iteration=iteration,
        games=sum(line.get("games", 0) for line in self_play),
        positions=sum(line.get("positions", 0) for line in self_play),
        started_from=_source(config.get("start")),
        environments=tuple(
            each for each in read_environments(run.path) if each.iteration <= max(1, iteration)
        ),
        written_by=__version__,
    )


def _source(start: Any) -> SourceNetwork | None:
    """Return the initial network of a run from its setting `start`, or None."""
    if not isinstance(start, Mapping):
        return None
    folder = source_run_folder(str(start["source"]), start["iteration"])
    facts = {name: start[name] for name in ("iteration", "game", "digest", "transfer")}
    return SourceNetwork(run=_last_name(Path(folder)), **facts)


def _last_name(path: Path) -> str:
    """Return the last component of a path; parent folders are private."""
    name = path.absolute().name if path.parts else ""
    return "".join(each if each.isprintable() else "?" for each in name)[:MAX_TEXT]


_DIGEST_DIGITS = 8
_HEAD = re.compile(rf"(?P<path>.*{re.escape(AGENT_SUFFIX)})(@(?P<digest>[0-9a-f]+))?", re.DOTALL)


def names_agent_file(head: str) -> bool:
    """Return whether a spec without options names an agent file, with or without a digest."""
    return AGENT_SUFFIX in (Path(head).suffix, Path(head.rpartition("@")[0]).suffix)


def read_agent_file(head: str) -> tuple[Path, SharedAgent]:
    """Return the path and the agent of ``FILE.zerolab[@DIGEST]``.

    Raises UserError for a missing file, an invalid agent, or a different digest.
    """
    match = _HEAD.fullmatch(head)
    if match is None:
        raise UserError(
            f"{quoted(head)}: expected a file ending in {AGENT_SUFFIX}, optionally followed by @"
            f" and digits of its digest, as in agent{AGENT_SUFFIX}@3f2a9c1d"
        )
    path = Path(match["path"])
    _require_file(path)
    agent = parse_agent_file(read_limited(path, MAX_AGENT_BYTES), quoted(path))
    if not agent.digest.startswith(match["digest"] or ""):
        raise UserError(
            f"{quoted(path)} has the digest {agent.digest[:_DIGEST_DIGITS]}, not"
            f" {match['digest']}: the file has been replaced by another agent"
        )
    return path, agent


def _require_file(path: Path) -> None:
    """Raise UserError, suggesting a similar file in the folder, if a file is missing."""
    check_path(path)
    if path.exists():
        return
    folder = path.parent
    others = folder.glob(f"*{AGENT_SUFFIX}") if folder.is_dir() else ()
    raise UserError(
        f"{quoted(path)} does not exist: expected a file written by zerolab export"
        f"{did_you_mean(path.name, (each.name for each in others))}"
    )


def _name(path: Path, agent: SharedAgent) -> str:
    """Return the canonical spec, including the digest to distinguish networks in the same file."""
    location = canonical_folder(path)
    prefix = "file:" if ":" in location else ""  # mcts:9.zerolab would be a different kind of agent
    return f"{prefix}{location}@{agent.digest[:_DIGEST_DIGITS]}"


class _File(AgentKind):
    """Agent in a file written by `zerolab export`."""

    spec_form = f"FILE{AGENT_SUFFIX}"
    external_access: ExternalAccess = "path"

    def recognises(self, spec: str) -> bool:
        head = split_options(spec)[0]
        return names_agent_file(head) and not names_run(head)

    def fixed_game(self, argument: str) -> Game:
        return read_agent_file(split_options(argument)[0])[1].game

    def new_agent(self, argument: str, game: Game) -> Agent:
        head, text = split_options(argument)
        path, agent = read_agent_file(head)
        options = parse_search_options(NetworkOptions, text, agent.search_settings)

        def load_weights() -> Arrays:
            return read_agent_file(f"{path}@{agent.digest}")[1].weights

        network = StoredNetwork(
            _name(path, agent),
            agent.game,
            agent.network_settings,
            agent.search_settings,
            agent.network_digest,
            load_weights,
        )
        return network_agent(network, options)


AGENT_KINDS.add("file", _File())
