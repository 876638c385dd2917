"""What learning minimises; one file a loss."""
