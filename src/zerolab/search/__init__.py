"""Batched tree search over many games at once, and rolling horizon evolution."""
