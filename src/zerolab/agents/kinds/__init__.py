"""One file per kind of player; the modules in this folder are found and imported automatically."""
