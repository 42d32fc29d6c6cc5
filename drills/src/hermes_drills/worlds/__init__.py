"""Machines, composed: a stack (what runs), a style (how it is laid out) and an init system."""
