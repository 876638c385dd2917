"""Batched tree search: selection rules, leaf evaluators, evaluators."""
