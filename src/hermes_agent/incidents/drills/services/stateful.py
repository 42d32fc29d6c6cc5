"""A service that keeps items, as keeper.py, and notes in a file that it is up.

Further settings: state (file).
"""

import os
import sys
import time
from configparser import SectionProxy
from pathlib import Path

from hermes_agent.incidents.drills.services.keeper import Service, serve


class Stateful(Service):
    def __init__(self, own: SectionProxy) -> None:
        try:
            Path(own["state"]).write_text(f"up since {time.ctime()} as {os.getpid()}\n")
        except OSError as error:
            sys.exit(f"FATAL cannot write {own['state']}: {error.strerror}")
        super().__init__(own)


if __name__ == "__main__":
    serve(Stateful)
