"""A drill: a configuration of nginx that came with a deployment."""
