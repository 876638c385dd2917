"""How much the window keeps: one file for each kind."""
