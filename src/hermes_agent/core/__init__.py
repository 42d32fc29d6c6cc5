"""Values, events, protocols, errors and settings. Nothing here does I/O."""
