"""Reproducible random attacks on zerolab: kills, faults, damaged files, arguments and requests."""
