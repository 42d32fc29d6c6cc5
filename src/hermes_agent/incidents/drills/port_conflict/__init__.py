"""Somebody else holds the port of a service."""
