"""What the papers measured, measured again: one file a study."""
