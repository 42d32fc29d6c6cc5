"""A machine that is busy, and well."""
