"""Players by their names on a command line; one file a kind of player."""
