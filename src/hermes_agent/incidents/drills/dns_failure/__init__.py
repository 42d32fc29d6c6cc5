"""A drill: a name that is not resolved."""
