"""Agents in files: a spec names the file or, for an agent shipped with this package, the agent.

Agent files are exported from runs (`agents.exporting`) and can come from untrusted sources.
`parse_agent_file` validates every file and returns only agents that are safe to use.

The specs are ``FILE.zerolab[?OPTIONS]`` and, for shipped agents, ``NAME[?OPTIONS]``. Shipped agents
are named after the game, omitting the size if it is the default, as in ``connect-four`` and
``othello-6x6`` (docs/decisions/0098).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zerolab.agents.agent import (
    AGENT_KINDS,
    Agent,
    AgentKind,
    ExternalAccess,
    NetworkOptions,
    parse_search_options,
    require_network_outputs,
    split_options,
)
from zerolab.agents.run_agents import StoredNetwork, is_run_spec, network_agent
from zerolab.core.config import validate
from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.files import check_valid_path, make_folder, read_file, write_bytes
from zerolab.networks.catalogue import NETWORKS, NetworkSettings, require_matching_weights
from zerolab.rules.catalogue import game_name, parse_game, registered_games
from zerolab.rules.rules import Game
from zerolab.search.search_settings import SearchSettings
from zerolab.store.arrays import (
    AGENT_SUFFIX,
    MAX_AGENT_BYTES,
    WEIGHTS_KIND,
    AgentFile,
    AgentHeader,
    NamedArrays,
    agent_digest,
    decode_agent,
    require_finite_weights,
    saved_arrays_digest,
    to_half_precision,
    to_single_precision,
)
from zerolab.store.games import relative_path_text

_UPLOAD = "the file"


class CheckedAgent(NamedTuple):
    """Validated agent from an agent file."""

    game: Game
    network_settings: NetworkSettings
    search_settings: SearchSettings
    """Search settings for play: those of training, unless others were exported."""
    weights: NamedArrays
    """Weights in float32, even if stored in half precision."""
    half_precision_names: frozenset[str]
    """Names of the weights that are stored in half precision."""
    header: AgentHeader
    digest: str
    """Digest of the header and of the weights as stored."""
    network_digest: str
    """Digest of the network file in the run, which identifies the network in runs and files."""

    @property
    def stored_weights(self) -> NamedArrays:
        """Weights as stored in a file, without rounding."""
        halves = {name: self.weights[name].astype(np.float16) for name in self.half_precision_names}
        return self.weights | halves


def parse_agent_file(content: bytes, source: str = _UPLOAD) -> CheckedAgent:
    """Return the agent in the content of an agent file; error messages call the file `source`.

    Raises UserError, with one line per error, if `store.arrays.decode_agent` fails, if the game,
    network or search is unknown, or if the weights are incompatible with the network or not finite.
    """
    decoded = decode_agent(content, source)
    try:
        return checked_agent(decoded)
    except UserError as error:
        raise UserError(
            "\n".join(f"{source}: {line}" for line in str(error).splitlines())
        ) from None


def save_uploaded_agent(folder: Path, content: bytes) -> Path:
    """Validate an uploaded agent, store it in a folder, and return the path of the file.

    The file is named after the agent's digest, so an agent that is uploaded again is not stored
    again. Raises UserError, without writing anything, for content rejected by `parse_agent_file`.
    """
    path = folder / f"{parse_agent_file(content).digest}{AGENT_SUFFIX}"
    if not path.is_file():
        make_folder(folder)
        write_bytes(path, content)
    return path


def checked_agent(decoded: AgentFile) -> CheckedAgent:
    """Return the agent in a decoded file; raise UserError for invalid settings or weights."""
    header = decoded.header
    game = parse_game(header.game)
    if game_name(game) != header.game:
        raise UserError(f"game = {header.game}: expected {game_name(game)}")
    network = _network(header.network)
    # The cache size does not affect moves, and an untrusted file must not control it.
    search = validate(SearchSettings, {**header.search, "cache": SearchSettings().cache})
    weights = to_single_precision(decoded.weights)
    require_matching_weights(network, game, weights)
    require_finite_weights(weights)
    facts = {"game": header.game, "iteration": header.origin.iteration, "network": header.network}
    return CheckedAgent(
        game,
        network,
        search,
        weights,
        frozenset(name for name, array in decoded.weights.items() if array.dtype == np.float16),
        header,
        decoded.digest,
        saved_arrays_digest(WEIGHTS_KIND, weights, **facts),
    )


def with_search_options(agent: CheckedAgent, text: str) -> CheckedAgent:
    """Return an agent whose search is changed by options such as ``simulations=400``.

    Its weights are stored with the same precision as before. Raises UserError for invalid options
    and for those that a file cannot contain.
    """
    options = parse_search_options(NetworkOptions, text, agent.search_settings)
    for name, allowed in (
        ("simulations", options.simulations > 0),
        ("temperature_plies", options.temperature_plies == 0),
        ("cache", options.cache == agent.search_settings.cache),
    ):
        if not allowed:
            raise UserError(
                f"{name} = {getattr(options, name)} can be set only for play: an agent file cannot"
                " contain it"
            )
    require_network_outputs(options, agent.network_settings)
    search = options.search_settings.model_dump(mode="json")
    header = agent.header.model_copy(update={"search": search})
    weights = agent.stored_weights
    return checked_agent(AgentFile(header, weights, agent_digest(header, weights)))


def are_equal_in_half_precision(one: CheckedAgent, other: CheckedAgent) -> bool:
    """Return whether two agents have the same game, search and network, whatever their origins."""
    weights, others = (to_half_precision(each.weights) for each in (one, other))
    return (
        (one.game, one.network_settings, one.search_settings)
        == (other.game, other.network_settings, other.search_settings)
        and weights.keys() == others.keys()
        and all(np.array_equal(weights[name], others[name]) for name in weights)
    )


def _network(settings: Mapping[str, Any]) -> NetworkSettings:
    name = settings.get("name")
    if not isinstance(name, str):
        raise UserError(
            "the network settings have no name: expected settings such as those written by zerolab"
            " export"
        )
    kind: type[NetworkSettings] = NETWORKS[name]
    return validate(kind, settings)


class StoredAgent(NamedTuple):
    """Agent with its file and its name."""

    name: str
    """Canonical spec, with the first digits of the digest because the file can be replaced."""
    path: Path
    agent: CheckedAgent


class StoredAgentKind(AgentKind):
    """Kind of agents in files."""

    def read_agent(self, bare_spec: str) -> StoredAgent:
        """Return the agent named by a spec without options; raise UserError if there is none."""
        raise NotImplementedError

    def fixed_game(self, argument: str) -> Game:
        return self.read_agent(split_options(argument)[0]).agent.game

    def new_agent(self, argument: str, game: Game) -> Agent:
        bare_spec, text = split_options(argument)
        name, path, agent = self.read_agent(bare_spec)
        options = parse_search_options(NetworkOptions, text, agent.search_settings)

        def load_weights() -> NamedArrays:
            return read_agent_file(path, agent.digest).weights

        network = StoredNetwork(
            name,
            agent.game,
            agent.network_settings,
            agent.search_settings,
            agent.network_digest,
            load_weights,
        )
        return network_agent(network, options)


def read_agent_file(path: Path, digest_prefix: str = "") -> CheckedAgent:
    """Return the agent in a file; its digest must begin with `digest_prefix`.

    Raises UserError for a missing file, an invalid agent, or a different digest.
    """
    _require_file(path)
    agent = parse_agent_file(read_file(path, MAX_AGENT_BYTES), quoted(path))
    if not agent.digest.startswith(digest_prefix):
        raise UserError(
            f"{quoted(path)} has the digest {agent.digest[:_DIGEST_DIGITS]}, not {digest_prefix}:"
            " the file has been replaced by a different agent"
        )
    return agent


def _require_file(path: Path) -> None:
    """Raise UserError, suggesting a similar file in the folder, if a file is missing."""
    check_valid_path(path)
    if path.exists():
        return
    folder = path.parent
    others = folder.glob(f"*{AGENT_SUFFIX}") if folder.is_dir() else ()
    raise UserError(
        f"{quoted(path)} does not exist: expected a file written by zerolab export"
        f"{did_you_mean(path.name, (each.name for each in others))}"
    )


_DIGEST_DIGITS = 8
_BARE_SPEC = re.compile(r"(?P<name>.*?)(@(?P<digest_prefix>[0-9a-f]+))?", re.DOTALL)
_FILE_SPEC = re.compile(
    rf"(?P<name>.*{re.escape(AGENT_SUFFIX)})(@(?P<digest_prefix>[0-9a-f]+))?", re.DOTALL
)


class _File(StoredAgentKind):
    """Agent in a file written by `zerolab export`."""

    spec_form = f"FILE{AGENT_SUFFIX}"
    external_access: ExternalAccess = "path"

    def recognises(self, spec: str) -> bool:
        bare_spec = split_options(spec)[0]
        is_file = AGENT_SUFFIX in (
            Path(bare_spec).suffix,
            Path(bare_spec.rpartition("@")[0]).suffix,
        )
        return is_file and not is_run_spec(bare_spec)

    def read_agent(self, bare_spec: str) -> StoredAgent:
        match = _FILE_SPEC.fullmatch(bare_spec)
        if match is None:
            raise UserError(
                f"{quoted(bare_spec)}: expected a file ending in {AGENT_SUFFIX}, optionally"
                f" followed by @ and digits of its digest, as in agent{AGENT_SUFFIX}@3f2a9c1d"
            )
        path = Path(match["name"])
        agent = read_agent_file(path, match["digest_prefix"] or "")
        location = relative_path_text(path)
        prefix = "file:" if ":" in location else ""  # mcts:9.zerolab would name MCTS
        return StoredAgent(f"{prefix}{location}@{agent.digest[:_DIGEST_DIGITS]}", path, agent)


SHIPPED_FOLDER = Path(__file__).parent / "shipped"
"""Folder of the agents in this package, as NAME.zerolab with a card in NAME.toml; can be empty."""

_SHIPPED = "shipped"
_DEFAULT_OPPONENT = "mcts:1000"


def shipped_names() -> list[str]:
    """Return the names of the agents in this package, sorted."""
    return sorted(path.stem for path in SHIPPED_FOLDER.glob(f"*{AGENT_SUFFIX}"))


def shipped_path(name: str) -> Path:
    """Return the path of the file of the shipped agent `name`."""
    return SHIPPED_FOLDER / f"{name}{AGENT_SUFFIX}"


def shipped_name(game: Game) -> str:
    """Return the name of a game's shipped agent, whether or not that agent exists.

    This is the game's name with hyphens, omitting the size if it is the default. The names of other
    agents for the game begin with this name, as in ``connect-four-small``.
    """
    name, _, size = game_name(game).partition(":")
    is_default = game == registered_games()[name].default_game()
    return (name if is_default else f"{name}-{size}").replace("_", "-").replace(":", "-")


class ShippedAgent(NamedTuple):
    """Agent in this package, before its network is checked."""

    name: str
    spec: str
    """The name, with a prefix if it would otherwise name a run."""
    header: AgentHeader


def shipped_agents(game: Game) -> list[ShippedAgent]:
    """Return the undamaged shipped agents for a game; the one named after the game is first."""
    default, wanted = shipped_name(game), game_name(game)
    agents = []
    for name in sorted(shipped_names(), key=lambda name: (name != default, name)):
        with suppress(UserError):
            content = read_file(shipped_path(name), MAX_AGENT_BYTES)
            header = decode_agent(content, name).header
            if header.game == wanted:
                spec = f"{_SHIPPED}:{name}" if is_run_spec(name) else name
                agents.append(ShippedAgent(name, spec, header))
    return agents


def default_opponent_spec(game: Game) -> str:
    """Return the spec of an opponent for users without trained agents: a shipped agent, or MCTS."""
    return next((each.spec for each in shipped_agents(game)), _DEFAULT_OPPONENT)


class _Shipped(StoredAgentKind):
    """Agent in this package, listed by `zerolab agents`; a run of this name takes precedence."""

    spec_form = "a name listed by zerolab agents"

    def recognises(self, spec: str) -> bool:
        bare_spec = split_options(spec)[0]
        return bare_spec.partition("@")[0] in shipped_names() and not is_run_spec(bare_spec)

    def known_specs(self) -> Sequence[str]:
        return shipped_names()

    def read_agent(self, bare_spec: str) -> StoredAgent:
        match = _BARE_SPEC.fullmatch(bare_spec)
        assert match is not None  # any text matches
        name, digest_prefix = match["name"], match["digest_prefix"] or ""
        if name not in (names := shipped_names()):
            none = "this package contains no agents"
            expected = f"expected one of {', '.join(names)}" if names else none
            raise UserError(
                f"{quoted(name)} is not an agent shipped with this package: {expected}"
                f"{did_you_mean(name, names)}"
            )
        agent = read_agent_file(shipped_path(name))
        if not agent.digest.startswith(digest_prefix):
            raise UserError(
                f"{name} has the digest {agent.digest[:_DIGEST_DIGITS]}, not {digest_prefix}: this"
                " version of zerolab has a different agent with this name"
            )
        return StoredAgent(f"{name}@{agent.digest[:_DIGEST_DIGITS]}", shipped_path(name), agent)


AGENT_KINDS.add("file", _File())
AGENT_KINDS.add(_SHIPPED, _Shipped())
