"""A service that keeps items, as keeper.py, and looks at its queue now and then.

The level of the log is in the configuration; LOG_LEVEL in the environment goes before it.
"""

import os
import threading
import time
from configparser import SectionProxy

from hermes_agent.incidents.drills.services.keeper import Service, serve


class Looking(Service):
    def __init__(self, own: SectionProxy) -> None:
        if "LOG_LEVEL" in os.environ:
            own["level"] = os.environ["LOG_LEVEL"]
        super().__init__(own)
        threading.Thread(target=self.look, daemon=True).start()

    def look(self) -> None:
        while True:
            for name in sorted(os.listdir(self.data)):
                self.log("debug", f"queue: {name} looked at, nothing to do {'.' * 300}")
            time.sleep(0.02)


if __name__ == "__main__":
    serve(Looking)
