"""Commands as a user runs them: cold start, one question with and without a runtime, memory."""

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.table import Figure, scaled

ROUNDS = scaled(15, 1)
HERMES = str(Path(sys.executable).parent / "hermes")


def seconds(*words: str, env: dict[str, str] | None = None, rounds: int = ROUNDS) -> float:
    """The median of a command's wall time."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        done = subprocess.run(words, env=env, capture_output=True, stdin=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
        assert done.returncode == 0, done.stderr.decode()
    return statistics.median(taken)


@contextmanager
def model_server(script: dict[str, object], folder: Path, *options: str) -> Iterator[str]:
    """A server that speaks the OpenAI wire, in a process of its own."""
    path = folder / "script.json"
    path.write_text(json.dumps(script))
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.openai_server", "--port", "0", "--script", str(path),
         *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def server_seconds(url: str) -> float:
    """What the server itself takes for one streamed answer."""
    where = urlsplit(url)
    assert where.hostname is not None
    body = json.dumps(
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    )
    taken = []
    for _ in range(ROUNDS):
        connection = http.client.HTTPConnection(where.hostname, where.port)
        began = time.perf_counter()
        connection.request(
            "POST", f"{where.path}/chat/completions", body, {"content-type": "application/json"}
        )
        connection.getresponse().read()
        taken.append(time.perf_counter() - began)
        connection.close()
    return statistics.median(taken)


def environment(home: Path, url: str = "") -> dict[str, str]:
    return {
        **os.environ,
        "HERMES_HOME": str(home),
        "HERMES_MODEL": "openai/bench",
        "HERMES_POLICY": "sandbox",
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "bench",
    }


def memory_of(pid: int) -> float:
    """Megabytes that belong to the process: what it holds alone and its share of the rest."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel tells no size")


def figures() -> Iterator[Figure]:
    bare = seconds(sys.executable, "-c", "pass")
    version = seconds(HERMES, "--version")
    yield Figure(
        "cold `hermes --version`, times `python3 -c pass`",
        version / bare, "x", bare * 1000, "ms python3 -c pass", 3.0, "x",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        script: dict[str, object] = {"turns": [{"when": ".", "replies": [{"say": "hello there"}]}]}
        with model_server(script, Path(folder)) as url:
            env = environment(home, url)
            served = server_seconds(url)
            seconds(HERMES, "up", env=env, rounds=1)
            status = subprocess.run([HERMES, "status", "--json"], env=env, capture_output=True)
            pid = int(json.loads(status.stdout)["pid"])
            idle = memory_of(pid)
            ask = seconds(HERMES, "ask", "hi", env=env)
            client = seconds(sys.executable, "-c", "import socket, json, argparse")
            yield Figure(
                "`hermes ask`, runtime up, less the server's time",
                (ask - served) * 1000, "ms",
                client * 1000, "ms python3 importing socket, json, argparse", 100, "ms",
            )  # fmt: skip
            yield Figure(
                "idle runtime, memory", idle, "MB", _bare_memory(), "MB bare python3", 60, "MB"
            )
            yield Figure("the same after some turns", memory_of(pid), "MB", None, "", 60, "MB")
            seconds(HERMES, "down", env=env, rounds=1)
            alone = seconds(HERMES, "ask", "--no-runtime", "hi", env=env)
            imports = seconds(sys.executable, "-c", "import asyncio, httpx, apsw, msgspec, yaml")
            yield Figure(
                "`hermes ask --no-runtime`, less the server's time",
                (alone - served) * 1000, "ms",
                imports * 1000, "ms importing its libraries", 350, "ms",
            )  # fmt: skip


def _bare_memory() -> float:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bare:
        time.sleep(0.2)
        size = memory_of(bare.pid)
        bare.communicate(b"\n")
    return size
