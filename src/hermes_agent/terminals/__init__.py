"""Places where commands run and files lie. Each speaks the `Terminal` protocol of `core`."""
