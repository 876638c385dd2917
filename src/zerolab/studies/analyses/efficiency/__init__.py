"""The analyses of the study connect4-efficiency [Clausen2021]."""
