"""The scope kubernetes."""
