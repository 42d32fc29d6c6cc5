"""Audits: live state against what Git declares, and Kubernetes manifests against a policy."""
