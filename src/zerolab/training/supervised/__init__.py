"""Learning from solved positions instead of games of one's own [Clausen2021]."""
