"""A drill: a file that its service may no longer use."""
