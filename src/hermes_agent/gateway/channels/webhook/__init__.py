"""Webhooks: messages and alerts from programs, and answers to them."""
