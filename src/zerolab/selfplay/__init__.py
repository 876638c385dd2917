"""Games of an agent against itself, many in lockstep."""
