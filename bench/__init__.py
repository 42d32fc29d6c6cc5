"""Speed and size, each figure beside its floor in the same run. `make bench` prints the table."""
