"""A machine as it was seen: commands that look, readers of what they print, and what follows."""
