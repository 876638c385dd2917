"""One file an architecture; each module here is found and registered by itself."""
