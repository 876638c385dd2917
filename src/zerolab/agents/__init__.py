"""Players by name, for every command line."""
