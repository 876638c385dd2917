"""One file a leaf evaluator; each module here is found and registered by itself."""
