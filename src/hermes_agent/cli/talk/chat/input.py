"""The line in which a message is written: completion, history, attachments, the editor."""

import asyncio
import os
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Container,
    Dimension,
    FormattedTextControl,
    HSplit,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenuControl
from prompt_toolkit.widgets import SearchToolbar

from hermes_agent.cli.output.formatting import one_line
from hermes_agent.cli.talk.chat import attachments
from hermes_agent.cli.talk.chat.commands import SLASHES
from hermes_agent.cli.talk.chat.completion import ChatCompleter
from hermes_agent.cli.talk.chat.session import ChatSession, SentMessage
from hermes_agent.core.text.terminal import clean

MENU_ROWS = 8


class MessageInput:
    """`send` gets a message that is sent after all; `warn` a sentence to show."""

    def __init__(
        self,
        talk: ChatSession,
        history: str,
        prompt: Callable[[], str],
        send: Callable[[SentMessage], None],
        warn: Callable[[str], None],
    ) -> None:
        self._talk = talk
        self._prompt = prompt
        self._send = send
        self._warn = warn
        self.held: list[SentMessage] = []
        """Messages that were queued when the agent was stopped, to be decided on."""
        self.not_attached: set[str] = set()
        """Mentions in pasted text."""
        self.buffer = Buffer(
            history=_history(history),
            multiline=True,
            completer=ThreadedCompleter(ChatCompleter(talk)),
            complete_while_typing=Condition(self._completes),
            tempfile_suffix=".md",
        )
        self._search = SearchToolbar(backward_search_prompt="search what you typed: ")
        control = BufferControl(
            self.buffer, search_buffer_control=self._search.control, preview_search=True
        )
        self.window = Window(
            control,
            wrap_lines=True,
            dont_extend_height=True,
            height=Dimension(min=1, max=12),
            get_line_prefix=self._prefix,
        )
        self.focused = has_focus(self.buffer)

    def container(self) -> Container:
        attached = Window(FormattedTextControl(self._attached), height=1, style="class:quiet")
        menu = Window(
            CompletionsMenuControl(),
            height=Dimension(min=1, max=MENU_ROWS),
            dont_extend_height=True,
        )
        more = Window(FormattedTextControl(self._more), height=1, style="class:quiet")
        return HSplit(
            [
                Window(height=1),
                ConditionalContainer(attached, Condition(lambda: bool(self._attached()))),
                self.window,
                ConditionalContainer(menu, has_completions),
                ConditionalContainer(more, Condition(lambda: bool(self._more()))),
                self._search,
            ]
        )

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        if self.held:
            return [("class:prompt", "queued: s sends it now, d drops it, e puts it back here ")]
        return [("class:prompt", self._prompt())]

    def _attached(self) -> str:
        names = [clean(file["name"]) for file in self._talk.files]
        names += [
            os.path.basename(one.path)
            for one in attachments.attachments(self.buffer.text, self.not_attached)
        ]
        return f"attached: {one_line(', '.join(names))}" if names else ""

    def _more(self) -> str:
        state = self.buffer.complete_state
        total = len(state.completions) if state else 0
        return f"  … {total} in all: ↓, or more letters" if total > MENU_ROWS else ""

    def _completes(self) -> bool:
        text = self.buffer.document.text_before_cursor
        return text.startswith("/") or "@" in text

    def take(self) -> tuple[str, set[str]]:
        """The message, and its mentions that attach nothing; the line is empty again."""
        text, ignored = self.buffer.text.strip(), self.not_attached
        self.not_attached = set()
        self.buffer.append_to_history()
        self.buffer.reset()
        return text, ignored

    # keys

    def keys(self) -> KeyBindings:
        keys = KeyBindings()
        held = Condition(lambda: bool(self.held))
        for combination, act in (
            (("tab",), self._tab),
            (("c-v",), self._paste_image),
            (("c-x", "c-e"), lambda _event: self.edit()),
            ((Keys.BracketedPaste,), self.paste),
        ):
            keys.add(*combination, filter=self.focused & ~held)(act)
        keys.add("escape", filter=self.focused & has_completions)(
            lambda _event: self.buffer.cancel_completion()
        )
        keys.add(Keys.Any, filter=held)(lambda _event: None)
        keys.add("s", filter=held)(self._send_held)
        keys.add("d", filter=held)(lambda _event: self.held.clear())
        for key in ("e", "enter", "c-c", "c-d"):
            keys.add(key, filter=held)(self._edit_held)
        return keys

    def _tab(self, _event: KeyPressEvent) -> None:
        buffer = self.buffer
        fitting = [name for name in SLASHES if f"/{name}".startswith(buffer.text or " ")]
        if len(fitting) == 1:
            buffer.insert_text(f"/{fitting[0]}"[len(buffer.text) :] + " ")
        elif buffer.complete_state:
            buffer.complete_next()
        else:
            buffer.start_completion(select_first=True)

    def paste(self, event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        if media := attachments.pasted_media(text):
            self._mention(media)
        else:
            self.not_attached |= {one.name for one in attachments.attachments(text)}
            self.buffer.insert_text(text)

    def _mention(self, paths: list[str]) -> None:
        before = " " if self.buffer.document.char_before_cursor.strip() else ""
        self.buffer.insert_text(before + " ".join(map(attachments.mention, paths)) + " ")

    def _paste_image(self, event: KeyPressEvent) -> None:
        async def paste() -> None:
            path = await asyncio.to_thread(attachments.clipboard_image)
            if path is None:
                self._warn("no image in the clipboard (it is read by wl-paste, xclip or pngpaste)")
            else:
                self._mention([path])

        event.app.create_background_task(paste())

    def edit(self) -> None:
        """Continue in the editor; what it saves comes back to be sent."""
        self.buffer.open_in_editor()

    def _send_held(self, _event: KeyPressEvent) -> None:
        for message in self.held:
            self._send(message)
        self.held.clear()

    def _edit_held(self, _event: KeyPressEvent) -> None:
        texts = [message.text for message in self.held]
        for message in self.held:
            self._talk.files += message.files
        self.held.clear()
        self.buffer.text = "\n\n".join([*texts, *filter(None, [self.buffer.text])])
        self.buffer.cursor_position = len(self.buffer.text)


def _history(path: str) -> History:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
