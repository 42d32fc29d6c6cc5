"""Runs what is due by /etc/crontab and /etc/cron.d, as cron does. A minute lasts MINUTE_SECONDS:
what would take an hour can be watched. usage: crond.py"""

import glob
import os
import re
import subprocess
import sys
import time

MINUTE = float(os.environ.get("MINUTE_SECONDS", "60"))
LOG = "/var/log/cron.log"
ENTRY = re.compile(r"((?:[\d*/,-]+\s+){5})(\S+)\s+(.+)")
SETTING = re.compile(r"[A-Z_]+\s*=")


def say(text):
    with open(LOG, "a") as file:
        file.write(f"{time.strftime('%b %d %H:%M:%S')} {os.uname().nodename} CRON: {text}\n")


def users():
    with open("/etc/passwd") as file:
        return {line.split(":")[0] for line in file}


def entries():
    for path in ("/etc/crontab", *sorted(glob.glob("/etc/cron.d/*"))):
        if not re.fullmatch(r"[\w-]+", os.path.basename(path)):
            continue  # as cron does: no dots in names
        try:
            with open(path) as file:
                lines = file.read().splitlines()
        except OSError as error:
            say(f"({path}) CANNOT READ: {error.strerror}")
            continue
        for line in lines:
            line = line.strip()
            if not line or line.startswith("#") or SETTING.match(line):
                continue
            found = ENTRY.fullmatch(line)
            if found is None or found[2] not in users():
                say(f"({path}) ERROR (bad entry, line ignored): {line}")
                continue
            yield found[1].split(), found[2], found[3]


def is_due(fields, minute):
    first = fields[0]
    if fields[1:] != ["*"] * 4:
        return False
    if first == "*":
        return True
    step = re.fullmatch(r"\*/(\d+)", first)
    return minute % int(step[1]) == 0 if step else first.isdecimal() and minute % 60 == int(first)


def main():
    with open("/run/crond.pid", "w") as file:
        file.write(f"{os.getpid()}\n")
    say("INFO (started)")
    minute = 0
    running = []
    while True:
        for fields, user, command in entries():
            if is_due(fields, minute):
                say(f"({user}) CMD ({command})")
                with open(LOG, "a") as log:
                    running.append(
                        subprocess.Popen(
                            ["/bin/sh", "-c", command],
                            stdin=subprocess.DEVNULL,
                            stdout=log,
                            stderr=log,
                            cwd="/",
                        )
                    )
        end = time.monotonic() + MINUTE
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
            running = [one for one in running if one.poll() is None]
        minute += 1


if __name__ == "__main__":
    sys.exit(main())
