"""The chat on a terminal: finished pieces scroll away above; the live part, the input line and the
status bar stay below."""

import asyncio
import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.key_binding import (
    ConditionalKeyBindings,
    KeyBindings,
    KeyPressEvent,
    merge_key_bindings,
)
from prompt_toolkit.layout import (
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from hermes_agent.cli.home import home_and_settings
from hermes_agent.cli.output.consent import wrapped
from hermes_agent.cli.output.formatting import cells
from hermes_agent.cli.talk.chat.attachments import expand
from hermes_agent.cli.talk.chat.commands import is_slash, run_slash
from hermes_agent.cli.talk.chat.consent import ConsentPane
from hermes_agent.cli.talk.chat.input import MessageInput
from hermes_agent.cli.talk.chat.rendering import render
from hermes_agent.cli.talk.chat.session import ChatSession, SentMessage, listen, split_journal
from hermes_agent.cli.talk.chat.status import bell, header, notice, status_line
from hermes_agent.cli.talk.chat.view import ChatView, Event, ViewPiece, recap, warning
from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.root import ChatSettings, Settings
from hermes_agent.core.text.terminal import clean
from hermes_agent.core.timeouts import awake

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

LEAVE_SECONDS = 2.0
"""How long leaving waits for output that is not shown yet."""

RESERVED_ROWS = 8
"""Rows that the changing part leaves to what was printed before, the input and the status."""

STYLE = Style.from_dict(
    {
        "quiet": "dim", "status": "dim", "state.idle": "fg:ansigreen",
        "state.working": "bold fg:ansicyan", "state.waiting": "bold fg:ansiyellow",
        "state.problem": "bold fg:ansired", "prompt": "bold fg:ansicyan",
        "completion-menu": "noinherit", "completion-menu.completion": "noinherit",
        "completion-menu.completion.current": "noinherit reverse",
        "completion-menu.meta.completion": "noinherit dim",
        "completion-menu.meta.completion.current": "noinherit reverse",
        "scrollbar.background": "noinherit", "scrollbar.button": "noinherit reverse",
    }
)  # fmt: skip
"""Only the terminal's own colours, and no backgrounds: its theme decides."""

TOO_SMALL = "too small: make the window larger; until then, no key answers a question"

BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
"""What is sent in between appears at once, where the terminal knows it; else they do nothing."""


class ResizableApplication(Application[None]):
    """Erases itself completely when the terminal gets narrower and wraps what it had drawn."""

    def _on_resize(self) -> None:
        self._erase_wrapped()
        super()._on_resize()

    def _redraw(self, render_as_done: bool = False) -> None:
        self._erase_wrapped()  # it may be drawn before the signal arrives
        super()._redraw(render_as_done)

    def _erase_wrapped(self) -> None:
        renderer, columns = self.renderer, self.output.get_size().columns
        drawn, size = renderer.last_rendered_screen, renderer._last_size
        if drawn is None or size is None or columns >= size.columns or not _reflows(os.environ):
            return
        cursor = renderer._cursor_pos
        rows = [drawn.data_buffer[row] for row in range(cursor.y)]
        ends = [max((x for x in row if row[x].char != " "), default=0) for row in rows]
        self.output.cursor_up(sum(end // columns for end in (*ends, cursor.x)))
        renderer.erase(leave_alternate_screen=False)


class Screen:
    def __init__(self, talk: ChatSession, history: str) -> None:
        self._talk = talk
        talk.follows = True
        self._view = ChatView(talk.has_shown, time.monotonic)
        self._generation = 0
        self._interrupting = False
        self._items: asyncio.Queue[tuple[int, Event | list[ViewPiece]]] = asyncio.Queue()
        self._lines: asyncio.Queue[SentMessage] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._line_input = MessageInput(talk, history, self._prompt, self._resend, self._warn)
        self._buffer = self._line_input.buffer
        self._consent = ConsentPane(
            self._questions, self._answer, self._buffer, self._line_input.paste
        )
        self._settings = _settings()
        self._panel_top: int | None = None
        """The first line shown of the output panel; None until it was drawn."""
        self._open = False
        self._rendered: tuple[object, StyleAndTextTuples] = (None, [])
        self._app = ResizableApplication(
            layout=self._layout(),
            key_bindings=merge_key_bindings(
                [
                    self._keys(),
                    self._line_input.keys(),
                    ConditionalKeyBindings(self._consent.keys, self._line_input.focused),
                ]
            ),
            style=STYLE,
            refresh_interval=0.25,
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
        self._write([ViewPiece("header", header(self._talk, self._settings))])

        def begin() -> None:
            self._app.create_background_task(self._show_items())
            self._app.create_background_task(self._work_lines())
            if self._talk.id:
                self._start(self._join())

        await self._app.run_async(pre_run=begin)
        self._generation += 1

    # output

    def _layout(self) -> Layout:
        def height() -> Dimension:
            return Dimension(max=self._room())

        live = Window(
            FormattedTextControl(self._live),
            wrap_lines=True,
            dont_extend_height=True,
            height=height,
        )
        panel = Window(FormattedTextControl(self._panel), dont_extend_height=True, height=height)
        folded_out = Condition(lambda: self._folded_out)
        bar = Window(FormattedTextControl(self._bar), height=1)
        rows = [
            ConditionalContainer(live, Condition(lambda: bool(self._live())) & ~folded_out),
            ConditionalContainer(panel, folded_out),
            self._consent.container,
            self._line_input.container(),
            bar,
        ]
        small = Window(FormattedTextControl(TOO_SMALL), wrap_lines=True)
        return Layout(HSplit(rows, window_too_small=small), self._line_input.window)

    @property
    def _columns(self) -> int:
        return self._app.output.get_size().columns

    def _write(self, pieces: list[ViewPiece]) -> None:
        _write(render(pieces, self._columns))

    def _room(self) -> int:
        return max(4, self._app.output.get_size().rows - RESERVED_ROWS)

    def _live(self) -> StyleAndTextTuples:
        """The block that is being written, as it will be printed, and what runs or waits."""
        pieces, width = self._view.unfinished(), self._columns
        if self._rendered[0] != (pieces, width):
            text = render(pieces, width).rstrip("\n")
            self._rendered = ((pieces, width), to_formatted_text(ANSI(text)) if text else [])
        lines = self._view.live()
        shown = _last_lines(self._rendered[1], max(3, self._room() - len(lines)))
        for line in lines:
            quiet = line.startswith(("thinking ", "  │ ", "queued: "))
            shown.append(("class:quiet" if quiet else "", ("\n" if shown else "") + line))
        return shown

    def _panel(self) -> StyleAndTextTuples:
        """The output of the last calls, which Ctrl-O folds out; it opens at the last one."""
        lines: StyleAndTextTuples = []
        for title, text in self._view.outputs() or [("no tool was called yet", "")]:
            last = len(lines)
            lines.append(("bold", title + "\n"))
            body = text.rstrip("\n").split("\n") if text else []
            for line in body:
                parts = wrapped(line.expandtabs(), self._columns - 2, cells)
                lines += [("", f"│ {part}\n") for part in parts]
        rows = self._room() - 1
        wanted = last if self._panel_top is None else self._panel_top
        self._panel_top = first = min(max(0, wanted), max(0, len(lines) - rows))
        shown = lines[first : first + rows]
        where = f"lines {first + 1}-{first + len(shown)} of {len(lines)}"
        return [*shown, ("class:quiet", f"{where} · PgUp and PgDn scroll · Ctrl-O closes")]

    @property
    def _folded_out(self) -> bool:
        """A question hides the panel: both together would be too high."""
        return self._open and not self._consent.is_open

    def _fold(self, _event: KeyPressEvent) -> None:
        if not self._consent.is_open:
            self._open, self._panel_top = not self._open, None

    def _scroll(self, pages: int) -> None:
        self._panel_top = (self._panel_top or 0) + pages * (self._room() - 2)

    def _prompt(self) -> str:
        return "answer: " if self._consent.is_free else "> "

    def _bar(self) -> StyleAndTextTuples:
        return [*status_line(self._view, self._talk, self._columns, get_cwidth, time.monotonic())]

    def _print(self, *pieces: ViewPiece) -> None:
        self._items.put_nowait((self._generation, list(pieces)))

    async def _show_items(self) -> None:
        while True:
            generation, item = await self._items.get()
            pieces: list[ViewPiece] = []
            if isinstance(item, list):
                pieces = item
            elif generation == self._generation:
                elapsed = time.monotonic() - (self._view.since or time.monotonic())
                pieces = self._view.apply(item)
                self._interrupting = self._interrupting and item["kind"] != "turn_finished"
                if item["kind"] == "model_chosen":
                    self._talk.model = item["model"]
                self._announce(item, elapsed)
            if pieces:
                _write(BEGIN_UPDATE)
                await run_in_terminal(partial(self._write, pieces))
                _write(END_UPDATE)
            self._items.task_done()
            self._app.invalidate()

    def _announce(self, event: Event, elapsed: float) -> None:
        chosen = self._settings.chat if self._settings else ChatSettings()
        if text := notice(event, elapsed, chosen):
            _write(bell(text, chosen.notify, os.environ))

    # input

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        for combination, act in (
            (("enter",), self._enter),
            (("escape", "enter"), lambda _event: self._buffer.insert_text("\n")),
            (("c-c",), self._control_c),
            (("c-d",), self._control_d),
            (("c-o",), self._fold),
        ):
            keys.add(*combination, filter=self._line_input.focused)(act)
        panel = Condition(lambda: self._folded_out)
        keys.add("pageup", filter=panel)(lambda _event: self._scroll(-1))
        keys.add("pagedown", filter=panel)(lambda _event: self._scroll(1))
        return keys

    def _enter(self, _event: KeyPressEvent) -> None:
        buffer = self._buffer
        typed = buffer.text.strip()
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif not self._consent.enter(typed) and typed:
            self._submit()
            if self._consent.is_open and not typed.startswith("/"):
                self._print(ViewPiece("quiet", "queued; the question is still open"))

    def _questions(self) -> list[Event]:
        """The open ones, once it is decided what becomes of queued messages."""
        return [] if self._line_input.held else self._view.questions

    def _answer(self, id: str, answer: str) -> asyncio.Task[None]:
        return self._start(self._do(lambda: self._talk.api.answer(id, answer)))

    def _submit(self) -> None:
        text, ignored = self._line_input.take()
        if text == "/edit":
            self._line_input.edit()
            return
        lines = text.splitlines()
        if all(line.startswith("/") for line in lines):  # pasted at once
            self._print(ViewPiece("user", clean(text)))
            for line in lines:
                self._lines.put_nowait(SentMessage(line, []))
            return
        try:
            message = SentMessage(*expand(text, ignored), shown=self._view.since is None)
        except HermesError as error:
            self._warn(str(error))
            self._buffer.text = text
            self._buffer.cursor_position = len(text)
            return
        if message.shown:
            self._print(ViewPiece("user", clean(text)))
        self._lines.put_nowait(message)

    def _resend(self, message: SentMessage) -> None:
        self._print(ViewPiece("user", clean(message.text)))
        self._lines.put_nowait(message._replace(shown=True))

    def _warn(self, text: str) -> None:
        self._print(warning(text))

    def _take_back(self) -> None:
        """Stop the agent. Messages that were queued do not start the next turn by themselves."""
        held = self._talk.take_back(self._view.queued)
        self._loop.call_soon_threadsafe(self._line_input.held.extend, held)

    def _control_c(self, _event: KeyPressEvent) -> None:
        if self._interrupting:
            self._app.exit()
        elif self._view.since is not None:
            self._interrupting = True
            self._print(ViewPiece("quiet", "stopping; Ctrl-C again leaves"))
            queued = self._talk.id and self._view.queue
            self._start(self._do(self._take_back if queued else self._talk.interrupt))
        elif self._buffer.text:
            self._buffer.reset()
        else:
            self._interrupting = True
            self._print(ViewPiece("quiet", "Ctrl-C again, or Ctrl-D, leaves"))

    def _control_d(self, _event: KeyPressEvent) -> None:
        if self._buffer.text:
            self._buffer.delete()
        else:
            self._lines.put_nowait(SentMessage("/quit", []))  # after what was typed before

    # work

    async def _work_lines(self) -> None:
        """One after the other, so that messages keep their order."""
        while True:
            message = await self._lines.get()
            self._interrupting = False
            await self._do(partial(self._line, *message))
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

    def _line(self, line: str, files: list[dict[str, str]], shown: bool = True) -> None:
        talk = self._talk
        talk.files += files
        before = talk.id
        if not is_slash(talk, line):
            self._loop.call_soon_threadsafe(self._view.sending)
            try:
                sent = talk.say(line, shown)
            except HermesError:
                self._loop.call_soon_threadsafe(self._view.not_sent)
                if not shown:
                    self._say(ViewPiece("user", clean(line)))
                raise
            if talk.id != before:
                self._loop.call_soon_threadsafe(self._follow, sent["after"])
            return
        if text := run_slash(talk, line):
            self._say(ViewPiece("plain", clean(_COLOUR.sub("", text))))
        draft, again, talk.draft, talk.outgoing = talk.draft, talk.outgoing, "", ""
        if draft:
            self._loop.call_soon_threadsafe(self._buffer.insert_text, clean(draft))
        if again:
            self._line(again, [])
        if talk.id != before:
            self._loop.call_soon_threadsafe(self._switch)

    def _say(self, piece: ViewPiece) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._print, piece)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # following a session

    def _switch(self) -> None:
        self._generation += 1
        self._view = ChatView(self._talk.has_shown, time.monotonic)
        if self._talk.id:
            self._start(self._join())

    async def _join(self) -> None:
        """Show the end of the conversation, and follow it from there."""

        def load() -> None:
            past, after = split_journal(self._talk.journal())
            cost = self._talk.session()["cost"]
            for piece in recap(past):
                self._say(piece)
            events = [{**one["event"], "number": one["number"]} for one in past]
            self._loop.call_soon_threadsafe(self._view.resume, events)
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


def _last_lines(shown: StyleAndTextTuples, most: int) -> StyleAndTextTuples:
    """The end of formatted text."""
    left = most
    for place in reversed(range(len(shown))):
        style, text = shown[place][:2]
        left -= text.count("\n")
        if left <= 0:
            lines = text.split("\n")
            return [(style, "\n".join(lines[len(lines) - 1 + left :])), *shown[place + 1 :]]
    return [*shown]


def _reflows(environ: Mapping[str, str]) -> bool:
    """Whether the terminal wraps its lines anew when its width changes. Few do not."""
    return "TMUX" in environ or not ("XTERM_VERSION" in environ or "STY" in environ)


def _settings() -> Settings | None:
    try:
        return home_and_settings()[1]
    except HermesError:
        return None  # the runtime says what is wrong with them


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
