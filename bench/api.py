"""The HTTP API: the first request after the start, and those that follow, beside a route that does
nothing in a process of its own."""

import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.commands import HERMES
from bench.table import Figure, scaled

REQUESTS = scaled(200, 5)
TOKEN = "a-token-for-this-bench"
BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def nothing(request):
    await request.body()
    return Response(b"{}", media_type="application/json")

uvicorn.run(Starlette(routes=[Route("/v1/chat/completions", nothing, methods=["POST"])]),
            port=int(sys.argv[1]), log_level="error")
"""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        with _runtime(home) as port:
            first = _ask(port)
            taken = [_ask(port) for _ in range(REQUESTS)]
    with _bare() as port:
        bare_first = _ask(port)
        bare = [_ask(port) for _ in range(REQUESTS)]
    yield Figure(
        "the first API request after the start", first * 1000, "ms",
        bare_first * 1000, "ms of a bare route", 200, "ms",
    )  # fmt: skip
    yield Figure(
        f"one chat completion, median of {REQUESTS}", statistics.median(taken) * 1000, "ms",
        statistics.median(bare) * 1000, "ms of a bare route",
    )  # fmt: skip
    yield Figure(
        "chat completions one after the other", REQUESTS / sum(taken), "/s",
        REQUESTS / sum(bare), "/s of a bare route",
    )  # fmt: skip


def _ask(port: int) -> float:
    body = json.dumps({"model": "hermes", "messages": [{"role": "user", "content": "hi"}]})
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/v1/chat/completions", body, headers)
    answer = connection.getresponse()
    read = answer.read()
    taken = time.perf_counter() - began
    connection.close()
    assert answer.status == 200, read
    return taken


@contextlib.contextmanager
def _runtime(home: Path) -> Iterator[int]:
    script = home / "script.json"
    script.write_text(json.dumps({"turns": [{"when": ".", "replies": [{"say": "hello"}]}]}))
    port = _free()
    settings = {
        "model": f"scripted/{script}",
        "policy": "sandbox",
        "gateway": {"listen": f"127.0.0.1:{port}", "token": "BENCH_TOKEN"},
    }
    (home / "config.yaml").write_text(json.dumps(settings))
    environ = {**os.environ, "HERMES_HOME": str(home), "BENCH_TOKEN": TOKEN}
    with _running([HERMES, "serve"], port, environ):
        yield port


@contextlib.contextmanager
def _bare() -> Iterator[int]:
    port = _free()
    with _running([sys.executable, "-c", BARE, str(port)], port, dict(os.environ)):
        yield port


@contextlib.contextmanager
def _running(command: list[str], port: int, environ: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(command, env=environ)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "it does not come up"
                time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait(15)


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
