"""A log that grows without measure."""
