"""Gymnasium environments: an agent in the place of a level, or of both."""
