"""A drill: one that fell and took another with it."""
