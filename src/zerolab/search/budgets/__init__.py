"""How many simulations a move gets; one file per budget."""
