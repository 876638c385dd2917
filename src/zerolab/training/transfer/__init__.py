"""Starting a run from a network of another: which weights are taken, and what they must fit."""
