"""Ships the lines of a journal to another service.

    shipper.py FILE.conf

Settings, in the section [service]: name, journal (file), target (address), log (file).
"""

import configparser
import sys
import time
import urllib.error
import urllib.request


def log(path: str, text: str) -> None:
    try:
        with open(path, "a") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
    except OSError as error:
        sys.stderr.write(f"cannot write {path}: {error.strerror}\n")
        time.sleep(0.2)


def main() -> None:
    found = configparser.ConfigParser()
    with open(sys.argv[1]) as file:
        found.read_file(file)
    own = found["service"]
    log(own["log"], f"INFO {own['name']} ships to {own['target']}")
    shipped = 0
    while True:
        with open(own["journal"]) as file:
            lines = file.readlines()
        while shipped < len(lines):
            url = f"{own['target']}/items/{own['name']}-{shipped}"
            request = urllib.request.Request(url, lines[shipped].encode(), method="PUT")
            try:
                urllib.request.urlopen(request, timeout=2).close()
            except (urllib.error.URLError, OSError) as error:
                log(own["log"], f"ERROR cannot ship line {shipped} to {url}: {error}; retrying")
                continue
            shipped += 1
        time.sleep(0.2)


if __name__ == "__main__":
    main()
