"""Channels by which people reach the agent, and what goes between: one router, two ledgers."""
