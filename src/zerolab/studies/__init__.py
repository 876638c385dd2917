"""What the papers measured, measured again: one file per study."""
