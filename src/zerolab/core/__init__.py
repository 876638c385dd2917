"""Foundations of all other packages."""

__version__ = "0.1.0"
