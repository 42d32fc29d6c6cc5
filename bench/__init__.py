"""Figures, each beside its floor."""
