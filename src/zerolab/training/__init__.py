"""The iteration loop: self-play, learning, gate; presets; resume."""
