"""Search settings as players of a league: they play, are rated, and the best ones have mutants."""

from importlib import import_module

# Budgets are listed in the order of their import, which must not depend on who imports a league.
import_module("zerolab.search.budgets")
