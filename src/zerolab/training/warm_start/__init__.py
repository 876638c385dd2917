"""Enhanced search in the first iterations of self-play (the paper W)."""
