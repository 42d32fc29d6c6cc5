"""Takes items from a queue folder and leaves them in another. usage: worker.py CONFIGURATION"""

import _signal
import os
import sys
import time

from app import Config, Service, Trouble, take_lock


class Worker(Service):
    def made(self):
        return None

    def work(self):
        queue, data = self.config.text("queue"), self.config.text("data")
        self.say("INFO", f"{self.name} takes from {queue}")
        while True:
            try:
                names = sorted(name for name in os.listdir(queue) if not name.startswith("."))
                for name in names:
                    time.sleep(self.delay)
                    os.replace(f"{queue}/{name}", f"{data}/{name}")
            except OSError as error:
                self.say("ERROR", f"cannot take from {queue}: {error}")
                time.sleep(0.5)
            except Trouble as trouble:
                self.say("ERROR", str(trouble))
            time.sleep(0.02)


def main(path):
    config = Config(path)
    _signal.signal(_signal.SIGTERM, lambda *_: sys.exit(0))
    lock = config.text("lock", "")
    if lock:
        take_lock(lock)
    try:
        worker = Worker(config)
        with open(f"/run/{worker.name}.pid", "w") as file:
            file.write(f"{os.getpid()}\n")
        worker.work()
    finally:
        if lock:
            os.unlink(lock)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except OSError as error:
        raise SystemExit(f"cannot start: {error}") from None
