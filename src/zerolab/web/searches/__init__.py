"""Searches for pages: one queue with fair shares, searches that grow, positions that are solved."""
