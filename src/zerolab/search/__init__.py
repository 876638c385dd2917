"""Batched tree search: selection rules, leaf rules, evaluators."""
