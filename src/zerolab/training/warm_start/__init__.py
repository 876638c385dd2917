"""Enhanced search in the first iterations of self-play [Wang2020b]."""
