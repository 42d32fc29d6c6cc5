"""What may be done: the gate, its rules, and what must not be written down."""
