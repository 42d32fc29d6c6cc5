"""A drill without a fault: it failed once, and is well again."""
