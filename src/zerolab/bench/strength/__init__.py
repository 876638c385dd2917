"""How strong training makes a player per hour: variants of a preset against the clock."""
