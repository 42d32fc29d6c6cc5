"""A service that runs out of open files."""
