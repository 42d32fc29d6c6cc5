"""Chat channels: what people write to the agent, and what it sends them."""
