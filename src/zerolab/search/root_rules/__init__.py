"""One file per root rule; every module here is imported and registers itself."""
