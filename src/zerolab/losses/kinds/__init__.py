"""One file a loss; each module here is found and registered by itself."""
