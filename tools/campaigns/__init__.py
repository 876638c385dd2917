"""Reproducible random attacks on zerolab: kills, faults, damages, arguments and requests."""
