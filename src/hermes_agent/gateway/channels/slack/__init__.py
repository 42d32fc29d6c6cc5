"""Slack, by Socket Mode and the Web API."""
