"""Drift: what a repository declares, held against what is there."""
