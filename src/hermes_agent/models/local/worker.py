"""The process that a local model runs in: `python -m hermes_agent.models.local.worker FILE CONTEXT
THREADS`. It reads one JSON object per line: `{"id", "body"}` is a request, `{"stop"}` cancels one.
It writes `{"ready"}` or `{"failed"}` once, then `{"id", "text"}`, `{"id", "beat"}` and at the end
`{"id", "done"}` or `{"id", "error"}`. It ends when its input does."""

import os
import queue
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import xllamacpp

NICENESS = 5
"""Interactive work on the machine comes first."""
BATCH = 64
"""Prompt tokens per batch; a request can be cancelled between two batches."""
CACHE_MB = 512
"""Memory for the cached state of earlier conversations."""


def load(file: str, context: int, threads: int) -> Any:
    """The model in llama.cpp's own server, which caches what it has read of a conversation. It
    insists on listening: on a socket whose file is removed at once."""
    settings = xllamacpp.CommonParams()
    settings.model.path = file
    settings.n_ctx = context
    settings.n_parallel = 1
    settings.n_batch = settings.n_ubatch = BATCH
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    settings.cache_ram_mib = CACHE_MB
    settings.fit_params = False
    settings.warmup = False
    settings.verbosity = 1
    settings.ui = settings.endpoint_slots = False
    settings.n_threads_http = 1
    # We parse calls from the text ourselves.
    settings.force_pure_content_parser = True
    with tempfile.TemporaryDirectory() as folder:
        settings.hostnames = [str(Path(folder) / "local.sock")]
        return xllamacpp.Server(settings)


class Worker:
    """Answers one request at a time; a thread reads new requests and cancellations."""

    def __init__(self, model: Any, say: Callable[[dict[str, Any]], None]) -> None:
        self._model = model
        self._say = say
        self._requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._stopped: set[int] = set()

    def receive(self, lines: BinaryIO) -> None:
        for line in lines:
            message = msgspec.json.decode(line)
            if "stop" in message:
                self._stopped.add(message["stop"])
            else:
                self._requests.put(message)
        os._exit(0)  # the main thread may be deep in native code

    def work(self) -> None:
        while True:
            request = self._requests.get()
            if request["id"] not in self._stopped:
                self._answer(request["id"], request["body"])
            self._stopped.discard(request["id"])

    def _answer(self, id: int, body: dict[str, Any]) -> None:
        finish, ended = "", False

        def take(piece: dict[str, Any]) -> bool:
            """Handle a chunk of the answer; returning true cancels it."""
            nonlocal finish, ended
            ended = ended or "error" in piece or "usage" in piece
            if "error" in piece:
                self._say({"id": id, "error": piece["error"]})
            elif piece.get("choices"):
                choice = piece["choices"][0]
                finish = choice.get("finish_reason") or finish
                text = choice.get("delta", {}).get("content")
                self._say({"id": id, "text": text} if text else {"id": id, "beat": True})
            elif "usage" in piece:
                self._say({"id": id, "done": {"finish": finish, "usage": piece["usage"]}})
            return id in self._stopped

        self._model.handle_chat_completions(body, take)
        if not ended:
            self._say({"id": id, "error": {"code": 500, "message": "the answer broke off"}})


def main(file: str, context: str, threads: str) -> None:
    # Native code must not write to standard output between our lines.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    os.nice(NICENESS)

    def say(line: dict[str, Any]) -> None:
        out.write(msgspec.json.encode(line) + b"\n")

    try:
        model = load(file, int(context), int(threads))
    except RuntimeError as error:
        say({"failed": str(error)})
        return
    say({"ready": True})
    worker = Worker(model, say)
    threading.Thread(target=worker.receive, args=(sys.stdin.buffer,), daemon=True).start()
    worker.work()


if __name__ == "__main__":
    main(*sys.argv[1:])
