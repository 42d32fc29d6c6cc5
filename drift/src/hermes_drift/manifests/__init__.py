"""Kubernetes manifests against a written policy, before anybody applies them."""
