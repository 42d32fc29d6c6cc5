"""A drill: a service whose clock is wrong."""
