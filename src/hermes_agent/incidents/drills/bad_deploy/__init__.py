"""A drill: a release that is worse than the one before."""
