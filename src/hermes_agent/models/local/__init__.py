"""A GGUF model in a process of its own, its tool calls held to their schemas."""
