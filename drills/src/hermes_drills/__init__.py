"""Drills: small machines that are broken for real, and judged from outside."""

__version__ = "0.1.0"
