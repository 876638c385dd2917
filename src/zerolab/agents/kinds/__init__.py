"""One file a kind of player; each module here is found and registered by itself."""
