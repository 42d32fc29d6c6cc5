"""Composition: settings become objects; the process that owns a home, and its local API."""
