"""One file per way in which networks grow; every module here is imported and registers itself."""
