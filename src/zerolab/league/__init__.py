"""Search settings as players of a league: they play, are rated, and the best ones have mutants."""

from zerolab.core.registry import import_modules

# Budgets are listed in the order of their import, which must not depend on who imports a league.
import_modules("zerolab.search.budgets")
