"""A cache that takes its memory at the start and keeps to it.

hoard.py MEGABYTES
"""

import sys
import time


def main() -> None:
    kept = [bytes([number % 251]) * (1 << 20) for number in range(int(sys.argv[1]))]
    print(f"cache of {len(kept)} MB is warm", flush=True)
    while True:
        time.sleep(5)


if __name__ == "__main__":
    main()
