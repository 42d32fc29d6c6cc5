"""A Chromium that the agent drives over the DevTools protocol."""
