"""Services that remember beside the built-in memory, one at most at a time. What they return is
background for the model; nothing depends on it."""
