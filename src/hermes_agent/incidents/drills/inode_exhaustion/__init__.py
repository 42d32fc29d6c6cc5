"""A file system without room for more files."""
