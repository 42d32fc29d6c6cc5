"""The tools of the model that need no other folder."""
