"""Somebody says that something is wrong; nothing is."""
