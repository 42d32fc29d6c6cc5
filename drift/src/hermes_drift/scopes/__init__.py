"""The kinds of things an audit compares."""
