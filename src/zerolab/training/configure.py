"""Resolution of a run's settings from a preset and assignments.

An assignment that would have no effect under the other settings is rejected, with a message that
names the setting to change instead. A preset may contain settings without effect, because
assignments can make them take effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from zerolab.core.config import Settings, fill_in_variant_names, validate
from zerolab.core.errors import UserError
from zerolab.core.nested_tables import Assignment, assign, flatten, parse_assignments
from zerolab.networks.network_settings import NetworkSettings
from zerolab.networks.objectives import Head
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import CHANGEABLE_SETTINGS, RUN_FOLDER_KIND, RunFolder
from zerolab.training.learn_settings import START_FIELDS_SET_BY_RUN
from zerolab.training.no_effect_rules import NO_EFFECT_RULES
from zerolab.training.shorthands import START_SOURCE_KEY, read_preset
from zerolab.training.train_settings import TrainSettings

_BOARDS = "boards"
_ALTERNATIVES = (["learn", "epochs"], ["learn", "replay_ratio"])
"""Mutually exclusive settings; assigning one removes the other from a preset."""


def resolve_settings(
    game: str | None,
    preset: str,
    assignments: Sequence[Assignment] = (),
    *,
    allow_programs: bool = False,
) -> TrainSettings:
    """Return the settings of a new run; raise UserError for any error in them.

    The settings of the preset are overridden by its settings for the board size, and then by the
    assignments, such as ``a.b=c``. If only the preset names a program, programs must be allowed.
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
    _adopt_source_network(data, [path for path, _ in assigned])
    for path, value in assigned:
        if path[:2] == ["network", "heads"] and len(path) > 2:
            _insert_default_heads(data)
        assign(data, path, value)
    fill_in_variant_names(TrainSettings, data)
    settings = validate(TrainSettings, data)
    if not allow_programs:
        require_no_untrusted_programs(settings, preset, _strings([value for _, value in assigned]))
    return settings


def require_no_untrusted_programs(
    settings: TrainSettings, origin: str, trusted: Iterable[str]
) -> None:
    """Raise UserError if a run would execute a program named only in `origin`, a preset or run.

    The author of `origin` may be unknown, and programs run with the user's full permissions.
    `trusted` are the strings entered by the user.
    """
    trusted_specs = set(trusted)
    untrusted = [spec for spec in settings.opponent_programs if spec not in trusted_specs]
    if untrusted:
        raise UserError(
            f"{origin} names a program to run, {', '.join(map(json.dumps, untrusted))}: expected"
            " --allow-programs (in Python, allow_programs=True), or an explicit setting of"
            " final_evaluation.baselines that names the program"
        )


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings nested in a value, such as a list of tables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def _adopt_source_network(data: dict[str, Any], assigned: Sequence[Sequence[str]]) -> None:
    """Use the architecture of the run's source network, unless another is assigned."""
    start = data.get("start")
    source = start.get("source") if isinstance(start, Mapping) else None
    is_named = any(path in (["network"], ["network", "name"]) for path in assigned)
    if isinstance(source, str) and source and not is_named:
        from zerolab.training.inputs import source_network_settings  # slow: imports torch

        data["network"] = source_network_settings(START_SOURCE_KEY, source).model_dump()


def _insert_default_heads(data: dict[str, Any]) -> None:
    """Insert the default heads if there are none, so that assignments can refer to them."""
    network = data.get("network", {})
    table = {"name": network} if isinstance(network, str) else network
    if isinstance(table, Mapping):
        heads = NetworkSettings.model_fields["heads"].default
        data["network"] = {"heads": list(heads), **table}


def _drop_alternatives(data: dict[str, Any], assigned: Sequence[Sequence[str]]) -> None:
    """Remove preset settings for which an alternative is assigned."""
    if any(path in assigned for path in _ALTERNATIVES):
        for section, key in _ALTERNATIVES:
            if isinstance(data.get(section), dict):
                data[section].pop(key, None)


def _for_board(boards: Mapping[str, Any], game: Any) -> Mapping[str, Any]:
    """Return the settings for the board size of a game; validation reports an invalid game."""
    if not boards or not isinstance(game, str):
        return {}
    rows, columns = parse_game(game)[:2]
    settings: Mapping[str, Any] = boards.get(f"{rows}x{columns}", {})
    return settings


def _merge(data: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Merge changes into nested tables, in place."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(data.get(key), dict):
            _merge(data[key], value)
        else:
            data[key] = value


def resume_settings(
    run: RunFolder, assignments: Sequence[Assignment], *, allow_programs: bool = False
) -> TrainSettings:
    """Return the settings for resuming a run; `iterations` must include all iterations begun.

    The path of the solved positions may change, since the file is identified by its digest, and so
    may `selfplay.processes`, `selfplay.chunks` and `device`, which determine only how the work is
    done. Any other change raises UserError, because the run would no longer match its settings. If
    the run names a program that no assignment names, programs must be allowed.
    """
    settings = saved_settings(run)
    data = settings.model_dump()
    assigned = parse_assignments(assignments)
    if not allow_programs:
        require_no_untrusted_programs(
            settings, str(run.path), _strings([value for _, value in assigned])
        )
    for path, value in assigned:
        assign(data, path, value)
    amended = with_values_set_by_run(validate(TrainSettings, data), settings)
    RUN_FOLDER_KIND.require_equal_settings(
        run.path,
        settings.model_dump(),
        amended.model_dump(),
        except_for=CHANGEABLE_SETTINGS,
        note=f" (only these can change: {', '.join(CHANGEABLE_SETTINGS)})",
    )
    begun = run.progress.current_iteration
    if amended.iterations < begun:
        raise UserError(
            f"iterations = {amended.iterations}: expected at least {begun}, since the run has"
            f" already begun iteration {begun}"
        )
    if amended.iterations != settings.iterations and settings.run_length_setting_name:
        raise UserError(
            f"iterations = {amended.iterations}: expected the run's {settings.iterations}, since"
            f" {settings.run_length_setting_name} spans the whole run"
        )
    return amended


def with_values_set_by_run(settings: TrainSettings, saved: TrainSettings) -> TrainSettings:
    """Return settings with the saved values of the fields that were set when the run started.

    A run can therefore be resumed with the same settings with which it was started.
    """
    saved_heads = {head.name: head for head in saved.network.heads}

    def completed(head: Head) -> Head:
        saved_head = saved_heads.get(head.name)
        if saved_head is None:
            return head
        values = _missing_values(head, saved_head, saved_head.fields_set_by_run)
        return head.model_copy(update=values)

    start = settings.start
    if start is not None and saved.start is not None:
        values = _missing_values(start, saved.start, START_FIELDS_SET_BY_RUN)
        start = start.model_copy(update=values)
    heads = tuple(map(completed, settings.network.heads))
    network = settings.network.model_copy(update={"heads": heads})
    return settings.model_copy(update={"network": network, "start": start})


def _missing_values(settings: Settings, saved: Settings, names: Iterable[str]) -> dict[str, Any]:
    """Return the saved values of the named fields that have their default in `settings`."""
    fields = type(settings).model_fields
    return {
        name: getattr(saved, name)
        for name in names
        if getattr(settings, name) == fields[name].default
    }


def saved_settings(run: RunFolder) -> TrainSettings:
    """Return a run's saved settings."""
    return validate(TrainSettings, run.config, source=str(run.path / "config.toml"))


def require_effects(settings: TrainSettings, assignments: Sequence[Assignment]) -> None:
    """Raise UserError for an assignment that has no effect under the resulting settings."""
    for key in assigned_keys(assignments):
        if message := no_effect_message(settings, key):
            raise UserError(message)


def no_effect_preset_messages(settings: TrainSettings, preset: str) -> list[str]:
    """Return a message for each setting that a user's preset file changes without effect.

    Installed presets are not checked: they contain settings for several modes.
    """
    if not preset.endswith(".toml"):
        return []
    data = read_preset(preset)
    data.pop(_BOARDS, None)
    defaults = dict(flatten(TrainSettings().model_dump()))
    changed = (key for key, value in flatten(data) if defaults.get(key) != value)
    return [
        f"{preset}: {message}"
        for message in (no_effect_message(settings, key) for key in changed)
        if message
    ]


def no_effect_message(settings: TrainSettings, key: str) -> str:
    """Return the error message for a setting without effect; empty if it has an effect."""
    for rule in NO_EFFECT_RULES:
        applies = any(key == prefix or key.startswith(f"{prefix}.") for prefix in rule.keys)
        cause = rule.find_cause(settings) if applies else ""
        if cause:
            return f"{key} has no effect with {cause}: expected {rule.remedy}"
    return ""


def assigned_keys(assignments: Sequence[Assignment]) -> list[str]:
    """Return the dotted keys set by assignments; a table has one key for each of its values."""
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
