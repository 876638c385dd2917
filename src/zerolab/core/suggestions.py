"""Suggestions of settings for unknown keys, such as learn.learning_rate for learning_rate or lr."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

_LEAST_SIMILARITY = 0.5
_LEAST_SIMILARITY_ELSEWHERE = 0.8  # of a setting in another table
_LONGEST_WORD = 100  # longer words are not misspelt names and are slow to compare


def suggested_setting(
    model: type[BaseModel], key: str, parent: type[BaseModel] | None = None
) -> str:
    """Return the dotted key of the setting that is probably meant by an unknown key, or "".

    A setting anywhere whose name, or the initials of its name, is the last part of the key comes
    first. Otherwise, it is the most similar field of `parent`, the table that lacks the key, or a
    setting elsewhere with a very similar name.
    """
    if len(key) > _LONGEST_WORD:
        return ""
    prefix, _, name = key.rpartition(".")
    if named := setting_named(model, name):
        return named
    fields = (
        [f"{prefix}.{each}" if prefix else each for each in parent.model_fields] if parent else []
    )
    by_key = {each.casefold(): each for each in fields}
    by_name = {each.rpartition(".")[2].casefold(): each for each in _sorted_keys(model)[::-1]}
    matches = [
        *_close(key.casefold(), by_key, _LEAST_SIMILARITY),
        *_close(name.casefold(), by_name, _LEAST_SIMILARITY_ELSEWHERE),
    ]
    return max(matches)[1] if matches else ""


def _close(word: str, known: Mapping[str, str], cutoff: float) -> Iterator[tuple[float, str]]:
    """Yield the similarity to the most similar known word, from `cutoff` to 1, and its value."""
    for each in difflib.get_close_matches(word, known, n=1, cutoff=cutoff):
        yield difflib.SequenceMatcher(None, each, word).ratio(), known[each]


def setting_named(model: type[BaseModel], name: str) -> str:
    """Return the shortest dotted key whose last part has this name or these initials, or ""."""
    keys = _sorted_keys(model)
    folded = name.casefold().replace("-", "_")
    for spelling in (str.casefold, _initials):
        for key in keys:
            if spelling(key.rpartition(".")[2]) == folded:
                return key
    return ""


def _sorted_keys(model: type[BaseModel]) -> list[str]:
    """Return the dotted keys of all settings, the shortest first."""
    return sorted(set(_keys(model)), key=lambda each: (each.count("."), len(each)))


def _initials(name: str) -> str:
    """Return the initials of a name of several words, else nothing that a user would write."""
    words = name.casefold().split("_")
    return "".join(word[:1] for word in words) if len(words) > 1 else "."


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of all settings of a model and of its variants."""
    for name, field in model.model_fields.items():
        key = prefix + name
        models = list(_models(field.annotation))
        if not models and name != "name":
            yield key
        for inner in models:
            yield from _keys(inner, f"{key}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation that is a model or a union of models."""
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            yield each
