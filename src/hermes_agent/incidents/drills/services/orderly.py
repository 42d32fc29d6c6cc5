"""A service that keeps items, as keeper.py, one write at a time over all who write.

Further settings: lock (file that whoever writes has locked).
"""

import fcntl
import time

from hermes_agent.incidents.drills.services.keeper import Answer, Service, serve


class Orderly(Service):
    def keep(self, key: str, body: bytes) -> Answer:
        until = time.monotonic() + 0.7
        with open(self.own["lock"], "a") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise OSError(f"{self.own['lock']} is locked by somebody else") from None
                    time.sleep(0.02)
                else:
                    return super().keep(key, body)


if __name__ == "__main__":
    serve(Orderly)
