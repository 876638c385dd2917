"""One file a game; each module here is found and registered by itself."""
