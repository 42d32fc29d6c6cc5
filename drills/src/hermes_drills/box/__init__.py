"""Boxes: small machines in namespaces of their own, made without privileges."""
