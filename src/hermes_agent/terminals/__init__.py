"""Machines where commands run. Each implements the `Terminal` protocol of `core`."""
