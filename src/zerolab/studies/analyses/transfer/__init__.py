"""What one game's network brings to another: learning curves, strength, and what trunks share."""
