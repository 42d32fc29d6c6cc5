"""Jobs: when they are due, and that each slot has its run."""
