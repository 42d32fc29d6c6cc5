"""Signals, incidents, and the response to them."""
