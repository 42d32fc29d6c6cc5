"""What small services have in common: settings from a file, lines of a log, answers over HTTP."""

import configparser
import http.server
import time


def settings(path: str) -> configparser.SectionProxy:
    """The section [service] of a file."""
    found = configparser.ConfigParser(interpolation=None)
    with open(path) as file:
        found.read_file(file)
    return found["service"]


def line(text: str) -> str:
    """A line of a log."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n"


class Answering(http.server.BaseHTTPRequestHandler):
    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
