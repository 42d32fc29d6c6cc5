"""Drills: real faults in a box of their own, healed for practice and checked from outside."""
