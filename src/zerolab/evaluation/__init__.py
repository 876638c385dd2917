"""How often an agent errs, by exact solutions: solved positions, accuracy, perfect opponents."""
