"""How long a test waits for what must come."""

PATIENCE = 150.0
"""Not a measure of speed, only a guard against waiting for ever: a machine that builds for others,
too, stands still for half a minute now and then."""
