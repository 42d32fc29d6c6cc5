"""A folder for each channel: a manifest, which is data, and the code."""
