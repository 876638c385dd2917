"""Self-play that asks a service for the searches of its positions."""
