"""Search settings as players of a league: they play, are rated, and the best ones have mutants."""
