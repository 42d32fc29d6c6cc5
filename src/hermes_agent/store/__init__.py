"""The journal, sessions and search on SQLite: one writer thread, a few readers, one file."""
