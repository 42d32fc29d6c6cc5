"""Notifications by ntfy, and answers to them."""
