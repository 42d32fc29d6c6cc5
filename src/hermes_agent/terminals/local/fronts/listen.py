"""Runs inside of a front's network: listens there, hands the socket to the runtime, and becomes the
program. The words: the number of the file to hand it over by, the port, and the program's own."""

import os
import socket
import sys

if __name__ == "__main__":
    with (
        socket.socket(fileno=int(sys.argv[1])) as runtime,
        socket.create_server(("", int(sys.argv[2]))) as listener,
    ):
        socket.send_fds(runtime, [b"."], [listener.fileno()])
    os.execv(sys.argv[3], sys.argv[3:])  # noqa: S606 - this is the program
