"""Signals, incidents, drills, and audits of what is declared against what is there."""
