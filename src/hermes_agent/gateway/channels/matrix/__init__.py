"""Rooms of a Matrix homeserver."""
