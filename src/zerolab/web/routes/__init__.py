"""The JSON interface: one file for each kind of thing that is asked for."""
