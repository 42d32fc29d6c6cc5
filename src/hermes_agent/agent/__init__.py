"""The loop: a message becomes a turn, step by step, each step in the journal."""
