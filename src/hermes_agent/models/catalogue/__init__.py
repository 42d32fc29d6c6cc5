"""Services and models as data."""
