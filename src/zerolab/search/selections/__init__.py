"""One file per selection rule; every module here is imported and registers itself."""
