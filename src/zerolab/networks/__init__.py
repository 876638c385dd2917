"""Policy and value networks, and the fast path that evaluates positions with them."""
