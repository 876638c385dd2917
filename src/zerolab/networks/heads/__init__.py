"""One file per head; every module here is imported and registers itself."""
