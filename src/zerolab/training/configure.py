"""Settings of a run, new or resumed, from a preset and assignments.

An assignment that has no effect under the other settings is refused, with a message that names the
setting to change instead. A preset may contain such settings, since the others may be changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from zerolab.agents.specs import runs_program
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.nested_tables import Assignment, assign, parse_assignments
from zerolab.networks.head import HEADS, Head
from zerolab.networks.losses import learnt_heads
from zerolab.networks.network_settings import NetworkSettings
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RUN, RunFolder
from zerolab.training.learn_settings import SET_BY_RUN, StartSettings
from zerolab.training.settings import TrainSettings
from zerolab.training.shorthands import START, read_preset
from zerolab.training.warm_start import warm_start_search

_BOARDS = "boards"
_ALTERNATIVES = (["learn", "epochs"], ["learn", "replay_ratio"])
"""Settings that exclude each other: an assignment of one replaces the other in a preset."""


def resolve_settings(
    game: str | None,
    preset: str,
    assignments: Sequence[Assignment] = (),
    *,
    allow_programs: bool = False,
) -> TrainSettings:
    """Return the settings of a new run; raise UserError for every mistake.

    The preset comes first, then its settings for the size of the board, then assignments ``a.b=c``.
    A program that only the preset names is a mistake unless programs are allowed.
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
    """Raise UserError if a run would play a program that only its `origin`, a file, names.

    The file may come from a stranger, and a program has all rights of its user. `known` are
    strings that the user has typed.
    """
    typed = set(known)
    named = [each for each in programs(settings) if each not in typed]
    if named:
        raise UserError(
            f"{origin} names a program to be run, {', '.join(map(json.dumps, named))}: expected"
            " --allow-programs (in Python, allow_programs=True), or the program in"
            " final_evaluation.baselines among the settings given now"
        )


def programs(settings: TrainSettings) -> list[str]:
    """Return the specs of the programs that a run with these settings plays."""
    final = settings.final_evaluation
    return [each for each in final.baselines if runs_program(each)] if final.games else []


def _texts(value: Any) -> Iterator[str]:
    """Yield all strings within a value, such as a list of tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _take_network(data: dict[str, Any], assigned: Sequence[Sequence[str]]) -> None:
    """Give a run the architecture of the network it starts from, unless it is assigned."""
    start = data.get("start")
    source = start.get("source") if isinstance(start, Mapping) else None
    is_named = any(path in (["network"], ["network", "name"]) for path in assigned)
    if isinstance(source, str) and source and not is_named:
        from zerolab.training.inputs import source_network  # loads torch

        data["network"] = source_network(START, source).model_dump()


def _spell_out_heads(data: dict[str, Any]) -> None:
    """List the default heads if none are listed, so that assignments can name them."""
    network = data.get("network", {})
    table = {"name": network} if isinstance(network, str) else network
    if isinstance(table, Mapping):
        heads = NetworkSettings.model_fields["heads"].default
        data["network"] = {"heads": list(heads), **table}


def _drop_alternatives(data: dict[str, Any], assigned: Sequence[Sequence[str]]) -> None:
    """Remove settings of a preset if an alternative to them is assigned."""
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
    """Merge changes into nested tables, in place."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(data.get(key), dict):
            _merge(data[key], value)
        else:
            data[key] = value


def amend_settings(
    run: RunFolder, assignments: Sequence[Assignment], *, allow_programs: bool = False
) -> TrainSettings:
    """Return a run's settings for resuming it; only the number of iterations may grow.

    Solved positions may have moved, since their digest identifies them. Raises UserError for any
    other change, with which the run would no longer match its settings. A program that only the run
    names, and no assignment, is also a mistake unless programs are allowed.
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
    """Return settings completed with those that were set when the run began.

    The settings that began a run can then be given again to resume it.
    """
    former = {head.name: head for head in saved.network.heads}

    def completed(head: Head) -> Head:
        known = former.get(head.name)
        if known is None:
            return head
        fields = type(head).model_fields
        found = {
            name: getattr(known, name)
            for name in known.set_by_run
            if getattr(head, name) == fields[name].default
        }
        return head.model_copy(update=found)

    heads = tuple(map(completed, wanted.network.heads))
    network = wanted.network.model_copy(update={"heads": heads})
    return wanted.model_copy(update={"network": network, "start": _found(wanted, saved)})


def _found(wanted: TrainSettings, saved: TrainSettings) -> StartSettings | None:
    """Return the settings of the start, completed with those that were set when the run began."""
    if wanted.start is None or saved.start is None:
        return wanted.start
    fields = StartSettings.model_fields
    found = {
        name: getattr(saved.start, name)
        for name in SET_BY_RUN
        if getattr(wanted.start, name) == fields[name].default
    }
    return wanted.start.model_copy(update=found)


def saved_settings(run: RunFolder) -> TrainSettings:
    """Return a run's saved settings."""
    return validate(TrainSettings, run.config, source=str(run.path / "config.toml"))


class WithoutEffect(NamedTuple):
    """Settings that have no effect under some values of others."""

    keys: tuple[str, ...]
    """Dotted keys, which include all keys below them."""
    reason: Callable[[TrainSettings], str]
    """Returns the values that leave them without effect; empty if they have one."""
    expected: str
    """The settings to change instead."""


def _when(key: str, value: object) -> Callable[[TrainSettings], str]:
    """Return a reason that applies if a setting, or the name of a variant, has this value."""

    def reason(settings: TrainSettings) -> str:
        found: Any = settings
        for part in key.split("."):
            found = getattr(found, part)
        found = getattr(found, "name", found)
        return f"{key} = {quoted(found)}" if found == value else ""

    return reason


def _learns_from_positions(settings: TrainSettings) -> str:
    return "solved positions to learn from" if settings.supervised.positions else ""


def _has_no_noise(settings: TrainSettings) -> str:
    warm = warm_start_search(settings.search, settings.warm_start, 1.0)
    is_on = settings.search.noise.fraction or warm.noise.fraction
    return "" if is_on else "search.noise.fraction = 0.0"


def _has_default_learning_rate(settings: TrainSettings) -> str:
    name = "fresh_optimizer"
    return f"published_bugs = {quoted(name)}" if name in settings.published_bugs else ""


def _does_not_evolve(parameter: str) -> Callable[[TrainSettings], str]:
    def reason(settings: TrainSettings) -> str:
        league = settings.league
        if league is None or parameter in league.parameters:
            return ""
        return f"league.parameters = {', '.join(league.parameters)}"

    return reason


def _is_not_learnt(name: str) -> Callable[[TrainSettings], str]:
    def reason(settings: TrainSettings) -> str:
        loss, heads = settings.learn.loss, settings.network.heads
        has_weight = any(head.name == name and head.weight for head in heads)
        is_learnt = not has_weight or name in learnt_heads(loss, heads)
        return "" if is_learnt else f"learn.loss = {quoted(loss.name)}"

    return reason


_PARAMETERS = ("c", "fpu", "draw_value", "threshold", "check")

WITHOUT_EFFECT: tuple[WithoutEffect, ...] = (
    WithoutEffect(
        ("selfplay.episodes",),
        _when("selfplay.mode", "continuous"),
        "selfplay.mode.plies, times selfplay.parallel_games, or selfplay.mode=episodic",
    ),
    WithoutEffect(
        ("selfplay.policy_target",),
        _when("selfplay.temperature_plies", 0),
        "selfplay.late_policy_target, or selfplay.temperature_plies above 0",
    ),
    WithoutEffect(
        (
            "selfplay", "league", "warm_start", "gate", "search.noise",
            "learn.window", "learn.merging", "learn.value_target_search_weight",
        ),
        _learns_from_positions,
        "settings of network and learn",
    ),
    WithoutEffect(
        ("search.noise.concentration", "search.noise.inherited_visits"),
        _has_no_noise,
        "search.noise.fraction above 0, such as 0.25",
    ),
    WithoutEffect(
        ("warm_start.ramp",),
        _when("warm_start.variant", "baseline"),
        "a warm start, such as warm_start.variant=wrora",
    ),
    WithoutEffect(("learn.learning_rate",), _has_default_learning_rate, "a run without it"),
    WithoutEffect(("gate.openings",), _when("gate.games", 0), "gate.games above 0"),
    WithoutEffect(
        ("accuracy.positions",), _when("accuracy.every", 0), "accuracy.every of at least 1"
    ),
    WithoutEffect(
        ("final_evaluation.openings", "final_evaluation.baselines"),
        _when("final_evaluation.games", 0),
        "final_evaluation.games above 0",
    ),
    WithoutEffect(
        ("league.clock",), _does_not_evolve("threshold"), "threshold among league.parameters"
    ),
    WithoutEffect(("league.optimum",), _does_not_evolve("check"), "check among league.parameters"),
    *(
        WithoutEffect((f"network.heads.{name}.weight",), _is_not_learnt(name), "a loss such as sum")
        for name in HEADS
    ),
    *(
        WithoutEffect(
            (f"league.ranges.{name}",),
            _does_not_evolve(name),
            f"{name} among league.parameters",
        )
        for name in _PARAMETERS
    ),
)  # fmt: skip
"""Settings without effect that `TrainSettings` itself accepts."""


def require_effects(settings: TrainSettings, assignments: Sequence[Assignment]) -> None:
    """Raise UserError for an assignment without effect on the resulting settings."""
    for key in assigned_keys(assignments):
        if message := no_effect(settings, key):
            raise UserError(message)


def no_effect(settings: TrainSettings, key: str) -> str:
    """Return a message about a setting without effect; empty if it has one."""
    for idle in WITHOUT_EFFECT:
        is_meant = any(key == each or key.startswith(f"{each}.") for each in idle.keys)
        reason = idle.reason(settings) if is_meant else ""
        if reason:
            return f"{key} has no effect with {reason}: expected {idle.expected}"
    return ""


def assigned_keys(assignments: Sequence[Assignment]) -> list[str]:
    """Return the dotted keys that assignments set; a table has a key for each of its values."""
    return [
        key
        for path, value in parse_assignments(assignments)
        for key in _assigned_keys(".".join(path), value)
    ]


def _assigned_keys(key: str, value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield key
        return
    for name, each in value.items():
        yield from _assigned_keys(key if name == "name" else f"{key}.{name}", each)
