"""Exact values of positions under perfect play."""
