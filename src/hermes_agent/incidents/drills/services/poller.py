"""Looks whether a service is there, again and again, and holds the line.

poller.py PORT
"""

import socket
import sys
import time


def main() -> None:
    lines: list[socket.socket] = []
    while True:
        try:
            line = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=1)
            line.sendall(b"GET /healthz HTTP/1.1\r\n")
            lines.append(line)
        except OSError:
            time.sleep(0.2)
        time.sleep(0.005)


if __name__ == "__main__":
    main()
