"""One file per architecture; every module here is imported and registers itself."""
