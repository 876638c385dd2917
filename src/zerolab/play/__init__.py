"""Players, and matches between them."""
