"""Many robots at once."""
