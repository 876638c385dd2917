"""Values of children not visited yet; each module here is found and registered by itself."""
