"""Networks of other runs that a run's settings name: to learn from, or to start from."""

from __future__ import annotations

from pathlib import Path

from zerolab.agents.kinds.run import find_network
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.networks.catalogue import NETWORKS, NetworkSettings
from zerolab.store.agent_names import canonical_folder
from zerolab.store.networks import StoredNetwork, read_network
from zerolab.store.run_folder import RunFolder


def named_network(key: str, name: str, run: RunFolder | None) -> tuple[RunFolder, int]:
    """Return the run and the iteration that a setting names as RUN or RUN@N.

    Raises UserError, with the setting's key, for one that is not there or is `run` itself.
    """
    try:
        source, iteration = find_network(name)
    except UserError as error:
        raise UserError(f"{key} = {quoted(name)}: {error}") from None
    if run is not None and canonical_folder(source.path) == canonical_folder(run.path):
        raise UserError(
            f"{key} = {quoted(name)} is the run itself: expected a network that was trained before"
        )
    return source, iteration


def require_digest(path: Path, stored: StoredNetwork, digest: str) -> None:
    """Raise UserError unless a network is the one that a run has begun with, if it has begun."""
    if digest not in ("", stored.digest):
        raise UserError(
            f"{path} has the digest {stored.digest}, not {digest}: expected the network that this"
            " run has begun with"
        )


def stored_settings(stored: StoredNetwork) -> NetworkSettings:
    """Return the settings of a network in a file; raise UserError for unknown ones."""
    kind: type[NetworkSettings] = NETWORKS[stored.settings["name"]]
    return validate(kind, stored.settings)


def source_network(key: str, name: str) -> NetworkSettings:
    """Return the settings of the network that a setting names, without heads that are fed.

    Heads that learn what was found out when a run began, such as features of another network, are
    for that run only.
    """
    source, iteration = named_network(key, name, None)
    settings = stored_settings(read_network(source.weights_path(iteration)))
    heads = tuple(head for head in settings.heads if not head.found)
    return settings.model_copy(update={"heads": heads})
