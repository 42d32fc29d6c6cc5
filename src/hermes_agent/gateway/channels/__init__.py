"""A folder for each channel: a manifest that imports nothing, and the channel itself."""
