"""What has been trained, played and studied, as pages ask for it; found on disk each time."""
