"""A drill: two machines that do not reach each other."""
