"""A drill: all connections are taken."""
