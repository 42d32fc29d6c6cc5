"""A process that eats the processor and does nothing of use."""
