"""How strong players are, from the results of games."""
