"""The command line: a table of commands, each a small client of the runtime."""
