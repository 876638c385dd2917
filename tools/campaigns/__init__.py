"""Attacks on zerolab, at random but repeatable: kills, faults, damages, arguments, requests."""
