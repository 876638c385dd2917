"""One file a leaf rule; each module here is found and registered by itself."""
