"""A service that takes more and more memory."""
