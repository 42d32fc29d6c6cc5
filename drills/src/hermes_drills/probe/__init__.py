"""What the judge looks with, from outside of a box."""
