"""What the model can do that needs no other folder."""
