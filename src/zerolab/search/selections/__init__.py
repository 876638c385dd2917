"""One file a selection rule; each module here is found and registered by itself."""
