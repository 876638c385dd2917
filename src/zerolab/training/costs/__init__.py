"""What runs cost: moves, evaluations, operations, clock, and hours on a reference machine."""
