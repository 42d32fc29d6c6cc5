"""Models: one file per wire format, a table of services, and the scripted model."""
