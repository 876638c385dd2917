"""The interface every game fulfils and every search reads."""
