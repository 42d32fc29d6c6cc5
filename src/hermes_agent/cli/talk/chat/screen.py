"""The chat on a terminal: finished pieces scroll away above; the live part, the input line and the
status bar stay below."""

import asyncio
import contextlib
import io
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.styles import Style
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from hermes_agent.cli.output.events import consent_prompt, typed_answer
from hermes_agent.cli.output.formatting import dollars, one_line
from hermes_agent.cli.output.transcript import plain
from hermes_agent.cli.talk.chat.commands import SLASHES, is_slash, run_slash
from hermes_agent.cli.talk.chat.session import ChatSession, listen, split_journal
from hermes_agent.cli.talk.chat.view import ChatView, Event, ViewPiece, warning
from hermes_agent.core.errors import HermesError
from hermes_agent.core.text.terminal import clean
from hermes_agent.core.timeouts import awake

RECAP = 6
"""Lines of the past shown when a session is resumed."""

LEAVE_SECONDS = 2.0
"""How long leaving waits for output that is not shown yet."""

STYLES = {"quiet": "dim", "user": "bold", "warning": "yellow", "plain": ""}
MARKS = {"user": "> ", "warning": "! "}


def render(pieces: Sequence[ViewPiece], width: int) -> str:
    """Pieces with colours, whose meaning the marks repeat."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False)
    for piece in pieces:
        if piece.kind in ("markdown", "user"):
            console.print()
        if piece.kind == "markdown":
            console.print(Markdown(piece.text, code_theme="ansi_dark"))
        else:
            text = MARKS.get(piece.kind, "") + piece.text.rstrip("\n")
            console.print(Text(text, STYLES[piece.kind]))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Screen:
    def __init__(self, talk: ChatSession, history: str) -> None:
        self._talk = talk
        self._view = ChatView(talk.owns, time.monotonic)
        self._generation = 0
        self._interrupting = False
        self._items: asyncio.Queue[tuple[int, Event | list[ViewPiece]]] = asyncio.Queue()
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._buffer = Buffer(history=_history(history), multiline=True)
        self._app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            style=Style.from_dict({"live": "", "bar": "reverse"}),
            refresh_interval=0.5,
            min_redraw_interval=0.03,
            erase_when_done=True,
        )

    def run(self) -> int:
        asyncio.run(self._run())
        if text := self._talk.farewell():
            print(text)
        return 0

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._print(ViewPiece("quiet", f"Hermes with {self._talk.model}. /help lists the commands"))

        def begin() -> None:
            self._app.create_background_task(self._show_items())
            self._app.create_background_task(self._work_lines())
            if self._talk.id:
                self._start(self._join())

        await self._app.run_async(pre_run=begin)
        self._generation += 1

    # output

    def _layout(self) -> Layout:
        live = Window(
            FormattedTextControl(lambda: "\n".join(self._view.live())),
            style="class:live",
            wrap_lines=True,
            dont_extend_height=True,
            height=Dimension(max=16),
        )
        typed = Window(
            BufferControl(self._buffer, input_processors=[BeforeInput(self._prompt)]),
            wrap_lines=True,
            dont_extend_height=True,
        )
        bar = Window(FormattedTextControl(self._bar), style="class:bar", height=1)
        shown = Condition(lambda: bool(self._view.live()))
        return Layout(HSplit([ConditionalContainer(live, shown), typed, bar]), typed)

    def _prompt(self) -> str:
        question = self._view.question
        if question is None:
            return "> "
        return "answer: " if question["purpose"] == "question" else consent_prompt(question)

    def _bar(self) -> str:
        talk = self._talk
        session = talk.name or talk.id or "new session"
        model = one_line(talk.model, 40)
        parts = [session, self._view.state, dollars(self._view.cost), model]
        return " " + " · ".join(part for part in parts if part != "-")

    def _print(self, *pieces: ViewPiece) -> None:
        self._items.put_nowait((self._generation, list(pieces)))

    async def _show_items(self) -> None:
        while True:
            generation, item = await self._items.get()
            pieces: list[ViewPiece] = []
            if isinstance(item, list):
                pieces = item
            elif generation == self._generation:
                pieces = self._view.apply(item)
                self._interrupting = self._interrupting and item["kind"] != "turn_finished"
            if pieces:
                text = render(pieces, shutil.get_terminal_size().columns)
                await run_in_terminal(partial(_write, text))
            self._items.task_done()
            self._app.invalidate()

    # input

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        for combination, act in (
            (("enter",), self._enter),
            (("escape", "enter"), lambda _event: self._buffer.insert_text("\n")),
            (("tab",), self._complete),
            (("c-c",), self._control_c),
            (("c-d",), self._control_d),
        ):
            keys.add(*combination)(act)
        return keys

    def _enter(self, _event: KeyPressEvent) -> None:
        buffer = self._buffer
        question = self._view.question
        typed = buffer.text.strip()
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif question is not None and not typed.startswith("/"):
            if (answer := typed_answer(question, typed)) is not None:
                buffer.reset()
                self._start(self._do(lambda: self._talk.answer(question["id"], answer)))
            elif typed:
                self._submit(typed)
                self._print(ViewPiece("quiet", "queued; the question is still open: y or n"))
        elif typed:
            self._submit(typed)

    def _submit(self, text: str) -> None:
        self._buffer.append_to_history()
        self._buffer.reset()
        self._print(ViewPiece("user", clean(text)))
        lines = text.splitlines()
        if all(line.startswith("/") for line in lines):  # pasted at once
            for line in lines:
                self._lines.put_nowait(line)
        else:
            self._lines.put_nowait(text)

    def _complete(self, _event: KeyPressEvent) -> None:
        typed = self._buffer.text
        fitting = [name for name in SLASHES if typed and f"/{name}".startswith(typed)]
        if len(fitting) == 1:
            self._buffer.insert_text(f"/{fitting[0]}"[len(typed) :] + " ")
        elif fitting:
            self._print(ViewPiece("quiet", " ".join(f"/{name}" for name in fitting)))

    def _control_c(self, _event: KeyPressEvent) -> None:
        if self._interrupting:
            self._app.exit()
        elif self._view.since is not None:
            self._interrupting = True
            self._print(ViewPiece("quiet", "stopping; Ctrl-C again leaves"))
            self._start(self._do(self._talk.interrupt))
        elif self._buffer.text:
            self._buffer.reset()
        else:
            self._interrupting = True
            self._print(ViewPiece("quiet", "Ctrl-C again, or Ctrl-D, leaves"))

    def _control_d(self, _event: KeyPressEvent) -> None:
        if self._buffer.text:
            self._buffer.delete()
        else:
            self._lines.put_nowait("/quit")  # after what was typed before

    # work

    async def _work_lines(self) -> None:
        """One after the other, so that messages keep their order."""
        while True:
            line = await self._lines.get()
            self._interrupting = False
            await self._do(partial(self._line, line))
            if self._talk.leaving:
                await self._leave()
                return

    async def _leave(self) -> None:
        """Show what is still pending, then exit."""
        with contextlib.suppress(TimeoutError):
            async with awake(LEAVE_SECONDS):
                await self._items.join()
        self._app.exit()

    async def _do(self, work: Callable[[], Any]) -> None:
        """Run something that waits for the runtime; show its errors."""
        try:
            await asyncio.to_thread(work)
        except HermesError as error:
            self._say(warning(str(error)))

    def _line(self, line: str) -> None:
        talk = self._talk
        before = talk.id
        if not is_slash(talk, line):
            self._loop.call_soon_threadsafe(self._view.sending)
            try:
                sent = talk.say(line)
            except HermesError:
                self._loop.call_soon_threadsafe(self._view.not_sent)
                raise
            if talk.id != before:
                self._loop.call_soon_threadsafe(self._follow, sent["after"])
            return
        if text := run_slash(talk, line):
            self._say(ViewPiece("plain", clean(text)))
        draft, again, talk.draft, talk.outgoing = talk.draft, talk.outgoing, "", ""
        if draft:
            self._loop.call_soon_threadsafe(self._buffer.insert_text, clean(draft))
        if again:
            self._line(again)
        if talk.id != before:
            self._loop.call_soon_threadsafe(self._switch)

    def _say(self, piece: ViewPiece) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._print, piece)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # following a session

    def _switch(self) -> None:
        self._generation += 1
        self._view = ChatView(self._talk.owns, time.monotonic)
        if self._talk.id:
            self._start(self._join())

    async def _join(self) -> None:
        """Show the end of the conversation, and follow it from there."""

        def load() -> None:
            past, after = split_journal(self._talk.journal())
            cost = self._talk.session()["cost"]
            for text in list(plain(past, rewound=False))[-RECAP:]:
                self._say(ViewPiece("quiet", clean(text)))
            self._loop.call_soon_threadsafe(self._follow, after, cost)

        await self._do(load)

    def _follow(self, after: int, cost: float | None = None) -> None:
        self._generation += 1
        self._view.cost = cost
        threading.Thread(
            target=self._listen, args=(self._generation, self._talk.id, after), daemon=True
        ).start()

    def _listen(self, generation: int, session: str, after: int) -> None:
        def put(event: Event) -> None:
            self._loop.call_soon_threadsafe(self._items.put_nowait, (generation, event))

        def wanted() -> bool:
            return generation == self._generation

        # The loop is closed once the chat has been left.
        with contextlib.suppress(RuntimeError):
            try:
                for event in listen(self._talk.api, session, after, wanted):
                    put(event)
            except HermesError as error:
                put({"kind": "lost", "text": str(error)})


def _history(path: str) -> History:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
