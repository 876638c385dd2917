"""Foundations: the compiled pattern, random streams, settings, errors, files."""
