"""Speed, measured beside the machine's own limit."""
