"""A service that keeps items, as keeper.py, and makes sure that it is the only one.

Further settings: pid (file), control (a socket that answers with the number of items).
"""

import os
import signal
import socket
import sys
import threading
from configparser import SectionProxy
from pathlib import Path

from hermes_agent.incidents.drills.services.keeper import Service, serve


class Alone(Service):
    def __init__(self, own: SectionProxy) -> None:
        self.mine: list[Path] = []
        if "pid" in own:
            self.write_pid(Path(own["pid"]))
        if "control" in own:
            self.listen(Path(own["control"]))
        signal.signal(signal.SIGTERM, self.leave)
        super().__init__(own)

    def write_pid(self, path: Path) -> None:
        if path.exists():
            sys.exit(f"ERROR {path}: already running as pid {path.read_text().strip()}")
        path.write_text(f"{os.getpid()}\n")
        self.mine.append(path)

    def listen(self, path: Path) -> None:
        control = socket.socket(socket.AF_UNIX)
        try:
            control.bind(str(path))
        except OSError as error:
            sys.exit(f"ERROR control socket {path}: {error.strerror}")
        control.listen()
        self.mine.append(path)
        threading.Thread(target=self.tell, args=(control,), daemon=True).start()

    def tell(self, control: socket.socket) -> None:
        while True:
            line, _ = control.accept()
            with line:
                line.sendall(f"{len(os.listdir(self.data))} items\n".encode())

    def leave(self, number: int, frame: object) -> None:
        for path in self.mine:
            path.unlink(missing_ok=True)
        sys.exit(0)


if __name__ == "__main__":
    serve(Alone)
