"""Other programs: what they post comes in, and what is said to them is posted."""
