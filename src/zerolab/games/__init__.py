"""One file per game; every module here is imported, and registers its game."""
