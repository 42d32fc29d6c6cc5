"""`hermes drill`: episodes that a running Hermes heals, over its HTTP API."""
