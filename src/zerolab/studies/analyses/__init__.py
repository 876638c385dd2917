"""What several studies make of their results."""
