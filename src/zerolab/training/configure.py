"""From presets and assignments to the settings of a run, new or resumed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from zerolab.agents.specs import runs_program
from zerolab.core.config import assign, parse_assignments, validate
from zerolab.core.errors import UserError, quoted
from zerolab.networks.heads.interface import Head
from zerolab.networks.settings import NetworkSettings
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RUN, RunFolder
from zerolab.training.presets import read_preset
from zerolab.training.settings import TrainSettings
from zerolab.training.sources import source_network
from zerolab.training.transfer.settings import FOUND, START, StartSettings

_BOARDS = "boards"
_ALTERNATIVES = (["learn", "epochs"], ["learn", "reuse"])
"""Settings of which one only can be set: an assignment takes the other's place in a preset."""


def resolve(
    game: str | None,
    preset: str,
    assignments: Sequence[str] = (),
    *,
    allow_programs: bool = False,
) -> TrainSettings:
    """Return the settings of a new run; raise UserError for every mistake.

    A preset comes first, then what it says for the size of the game's board, then ``a.b=c``
    assignments. A program that the preset alone names is a mistake unless programs are allowed.
    """
    data = read_preset(preset)
    boards = data.pop(_BOARDS, {})
    if game is not None:
        data["game"] = game
    assigned = parse_assignments(assignments)
    for path, value in assigned:
        if path == ["game"]:
            data["game"] = value
    _merge(data, _for_board(boards, data.get("game")))
    _drop_alternatives(data, [path for path, _ in assigned])
    for path, value in assigned:
        if path[0] == "start":
            assign(data, path, value)
    _take_network(data, [path for path, _ in assigned])
    for path, value in assigned:
        if path[:2] == ["network", "heads"] and len(path) > 2:
            _spell_out_heads(data)
        assign(data, path, value)
    settings = validate(TrainSettings, data)
    if not allow_programs:
        require_no_programs(settings, preset, _texts([value for _, value in assigned]))
    return settings


def require_no_programs(settings: TrainSettings, origin: str, known: Iterable[str]) -> None:
    """Raise UserError where a run would play a program that its `origin`, a file, has named.

    The file may be a stranger's, and a program has all rights of its user. `known` are texts
    that the user has typed.
    """
    typed = set(known)
    named = [each for each in programs(settings) if each not in typed]
    if named:
        raise UserError(
            f"{origin} names a program to be run, {', '.join(map(json.dumps, named))}: expected"
            " --allow-programs (in Python, allow_programs=True), or final_evaluation.baselines with"
            " it among the settings given now"
        )


def programs(settings: TrainSettings) -> list[str]:
    """Return the specs of the programs that a run with these settings plays."""
    final = settings.final_evaluation
    return [each for each in final.baselines if runs_program(each)] if final.games else []


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a value, such as a list of tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _take_network(data: dict[str, Any], assigned: Sequence[Sequence[str]]) -> None:
    """Let a run that starts from another have its network, unless assignments name one."""
    start = data.get("start")
    source = start.get("source") if isinstance(start, Mapping) else None
    is_named = any(path in (["network"], ["network", "name"]) for path in assigned)
    if isinstance(source, str) and source and not is_named:
        data["network"] = source_network(START, source).model_dump()


def _spell_out_heads(data: dict[str, Any]) -> None:
    """Write the default heads where none are listed, so that each can be found by its name."""
    network = data.get("network", {})
    table = {"name": network} if isinstance(network, str) else network
    if isinstance(table, Mapping):
        heads = NetworkSettings.model_fields["heads"].default
        data["network"] = {"heads": list(heads), **table}


def _drop_alternatives(data: dict[str, Any], assigned: Sequence[Sequence[str]]) -> None:
    """Remove what a preset says of settings whose alternative is assigned."""
    if any(path in assigned for path in _ALTERNATIVES):
        for section, key in _ALTERNATIVES:
            if isinstance(data.get(section), dict):
                data[section].pop(key, None)


def _for_board(boards: Mapping[str, Any], game: Any) -> Mapping[str, Any]:
    """Return the settings for the size of a game's board; validation reports a wrong game."""
    if not boards or not isinstance(game, str):
        return {}
    rows, columns = parse_game(game)[:2]
    found: Mapping[str, Any] = boards.get(f"{rows}x{columns}", {})
    return found


def _merge(data: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Put changes on top of nested tables, in place."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(data.get(key), dict):
            _merge(data[key], value)
        else:
            data[key] = value


def amend(
    run: RunFolder, assignments: Sequence[str], *, allow_programs: bool = False
) -> TrainSettings:
    """Return a run's settings for resuming; only more iterations may be asked for.

    Solved positions may have moved: their digest says that they are the same. Raises UserError for
    any other change: the run would no longer be what its settings say. A program that the run alone
    names, and no assignment, is also a mistake, unless programs are allowed.
    """
    settings = saved_settings(run)
    data = settings.model_dump()
    assigned = parse_assignments(assignments)
    if not allow_programs:
        require_no_programs(settings, str(run.path), _texts([value for _, value in assigned]))
    for path, value in assigned:
        assign(data, path, value)
    wanted = with_findings(validate(TrainSettings, data), settings)
    RUN.require_equal(
        run.path,
        settings.model_dump(),
        wanted.model_dump(),
        except_for=("iterations", "supervised.positions"),
        note=" (only iterations may grow)",
    )
    if wanted.iterations < settings.iterations:
        raise UserError(
            f"iterations = {wanted.iterations}: expected at least the run's {settings.iterations}"
        )
    if wanted.iterations > settings.iterations and settings.learn.schedule.spans_run:
        raise UserError(
            f"iterations = {wanted.iterations}: expected the run's {settings.iterations}, over"
            f" which learn.schedule = {quoted(settings.learn.schedule.name)} extends"
        )
    return wanted


def with_findings(wanted: TrainSettings, saved: TrainSettings) -> TrainSettings:
    """Return settings that say what the run's have found out, unless they say it themselves.

    So what began a run, a command or a trial of a search, can be given again.
    """
    former = {head.name: head for head in saved.network.heads}

    def completed(head: Head) -> Head:
        known = former.get(head.name)
        if known is None:
            return head
        fields = type(head).model_fields
        found = {
            name: getattr(known, name)
            for name in known.found
            if getattr(head, name) == fields[name].default
        }
        return head.model_copy(update=found)

    heads = tuple(map(completed, wanted.network.heads))
    network = wanted.network.model_copy(update={"heads": heads})
    return wanted.model_copy(update={"network": network, "start": _found(wanted, saved)})


def _found(wanted: TrainSettings, saved: TrainSettings) -> StartSettings | None:
    """Return what is wanted of the start, with what was found out where it is the run's."""
    if wanted.start is None or saved.start is None:
        return wanted.start
    fields = StartSettings.model_fields
    found = {
        name: getattr(saved.start, name)
        for name in FOUND
        if getattr(wanted.start, name) == fields[name].default
    }
    return wanted.start.model_copy(update=found)


def saved_settings(run: RunFolder) -> TrainSettings:
    """Return a run's saved settings."""
    return validate(TrainSettings, run.config, source=str(run.path / "config.toml"))


def as_assignments(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield settings, nested or with dotted keys, as the ``KEY=VALUE`` texts of the command line.

    Raises UserError for a value that is neither number nor text, nor a list of them.
    """
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from as_assignments(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={_as_toml(f'{prefix}{key}', value)}"


def _as_toml(key: str, value: Any) -> str:
    try:
        return _inline(value)
    except (TypeError, ValueError, RecursionError):
        raise UserError(f"{key} = {quoted(value)}: expected numbers, texts or lists") from None


def _inline(value: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)
