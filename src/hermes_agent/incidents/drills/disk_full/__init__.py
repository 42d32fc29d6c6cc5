"""A file system without room."""
