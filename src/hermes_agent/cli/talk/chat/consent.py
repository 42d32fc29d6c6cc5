"""The open question in the chat: a pane that scrolls over the whole of it, and the answers below.

A key answers only once the answers are drawn, and what is typed as a message stays one."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Window,
)
from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.utils import get_cwidth

from hermes_agent.cli.output.consent import (
    Fold,
    Row,
    answer_rows,
    expiry,
    rows,
    rule_rows,
    wrapped,
)
from hermes_agent.cli.output.events import typed_answer
from hermes_agent.cli.output.formatting import count
from hermes_agent.core.text.consent import ConsentAnswer, ConsentView, consent_view

Event = dict[str, Any]

QUIET_SECONDS = 0.4
"""How long no key may be pressed before the answers are drawn: it may have been meant otherwise."""
WORD_SECONDS = 0.25
"""A letter followed by another within this time begins a message."""
RESERVED = 7
"""Lines below the pane: four of ours, an empty one, the input line and the status line."""
NO_QUESTION: Event = {"id": "", "purpose": "", "text": "", "choices": ()}
NOT_FOLDED = Fold(sys.maxsize)
"""All but what the lines above it say already."""

STYLES = {
    "title": "bold", "danger": "bold ansired", "added": "ansigreen", "removed": "ansired",
    "quiet": "class:quiet", "folded": "class:quiet", "chosen": "reverse",
}  # fmt: skip
"""Of rows, by their marks."""


class ConsentPane(UIControl):
    """The rows of a question, in exactly the lines that the layout has for them."""

    def __init__(
        self,
        questions: Callable[[], Sequence[Event]],
        answer: Callable[[str, str], asyncio.Future[None]],
        buffer: Buffer,
        paste: Callable[[KeyPressEvent], None],
    ) -> None:
        self._questions = questions
        self._answer = answer
        self._buffer = buffer
        self._paste = paste
        self._below_window = Window(
            FormattedTextControl(self._below),
            dont_extend_height=True,
            wrap_lines=True,
            height=self._least_below,
        )
        self._held = ""
        """A message that was begun before, while the question is answered."""
        self._begin(NO_QUESTION)
        buffer.on_text_changed += lambda _: self._typed()
        self.container = ConditionalContainer(
            HSplit(
                [
                    Window(self, dont_extend_height=True, height=Dimension(min=1, weight=50)),
                    self._below_window,
                ]
            ),
            Condition(lambda: self.is_open),
        )
        self.keys = self._bindings()

    # state

    def _begin(self, question: Event) -> None:
        self._id = question["id"]
        self._drawn = 0.0
        self._armed = False
        self._pending: tuple[str, asyncio.TimerHandle] | None = None
        """A letter that answers unless another follows."""
        self._answering = False
        self._chosen = -1 if question["purpose"] == "question" else 0
        """The safe answer, where consent is asked for."""
        self._offset = self._height = 0
        self._follow = False
        self._whole = False
        self._with_rule = False
        self._viewed: tuple[object, ConsentView] | None = None
        self._laid: tuple[object, list[Row]] = ((), [])
        self._read = bytearray()
        """For each row, whether it was on the screen."""
        self._not_an_answer = bool(self._buffer.text)
        """What is in the input line was begun before the answers were drawn."""

    @property
    def question(self) -> Event:
        """The oldest open one, or `NO_QUESTION`."""
        found = next(iter(self._questions()), NO_QUESTION)
        if self._id != found["id"]:
            self._cancel()
            self._begin(found)
            if found is NO_QUESTION and self._held:
                held, self._held = self._held, ""
                self._buffer.insert_text(held)
        return found

    @property
    def is_open(self) -> bool:
        return self.question is not NO_QUESTION

    @property
    def is_free(self) -> bool:
        """Whether words answer it, rather than letters."""
        return bool(self.question["purpose"] == "question")

    def _view(self) -> ConsentView:
        question = self.question
        agreed = question.get("agreed")
        if self._viewed is None or self._viewed[0] != agreed:
            self._viewed = (agreed, consent_view(question))
        return self._viewed[1]

    def _typed(self) -> None:
        if self._id and not self._armed:
            self._drawn = time.monotonic()
            self._not_an_answer = True
        if not self._buffer.text:
            self._not_an_answer = False

    def _arm(self) -> None:
        if not self._armed and time.monotonic() - self._drawn >= QUIET_SECONDS:
            self._armed = True
            self._not_an_answer = bool(self._buffer.text)

    def _waits(self) -> bool:
        """Whether a key may answer now."""
        drawn = self._below_window in get_app().layout.visible_windows
        asked = self.is_open and drawn  # a window may be too small for the answers
        return asked and self._armed and not self._answering and not self._buffer.text

    def _send(self, answer: str) -> None:
        self._answering = True
        self._answer(self._id, answer).add_done_callback(self._answered)

    def _answered(self, _done: object) -> None:
        self._answering = False  # it is still open if that failed, or others must agree

    # what is shown

    def _rows(self, width: int) -> list[Row]:
        view = self._view()
        fold = None if self._whole else NOT_FOLDED
        fold = fold if any(one.extra for one in view.sections) else None
        key = (view, width, fold, self._with_rule)
        if self._laid[0] != key:
            found = list(rows(view, width, fold, get_cwidth))
            if self.question["purpose"] == "approval":
                lasting = [one for one in view.answers if one.value in ("session", "always")]
                found += answer_rows(lasting, width, get_cwidth)
            if self._with_rule:
                found += rule_rows(view, width, get_cwidth)
            self._laid = (key, found)
            self._read = bytearray(len(found))
        return self._laid[1]

    def create_content(self, width: int, height: int) -> UIContent:
        """The rows on the screen, which has room for so many."""
        if not self._drawn:
            self._drawn = time.monotonic()
            asyncio.get_running_loop().call_later(QUIET_SECONDS + 0.02, get_app().invalidate)
        self._arm()
        found = self._all(width)
        self._read.extend(bytes(len(found) - len(self._read)))
        self._height = height
        self._offset = max(0, min(self._offset, len(found) - height))
        end = min(self._offset + height, len(found))
        self._read[self._offset : end] = b"\1" * (end - self._offset)
        lines: list[StyleAndTextTuples] = [
            [(STYLES.get(row.mark, ""), row.text)] for row in found[self._offset : end]
        ]
        return UIContent(lambda at: lines[at], len(lines))

    def _all(self, width: int) -> list[Row]:
        found = self._rows(width)
        return [*found, *self._choices(width)] if self.is_free else found

    def preferred_height(self, width: int, *_limits: object) -> int:
        """How many lines it takes if there is room; not all, unless all were asked for."""
        room, at_first = self._room()
        return min(len(self._all(width)), room if self._whole else at_first)

    def _room(self) -> tuple[int, int]:
        """The most lines for the pane, and how many it takes unless all is asked for."""
        room = max(get_app().output.get_size().rows - RESERVED, 2)
        return room, max(room * 2 // 3, min(room, 8))

    def _choices(self, width: int) -> list[Row]:
        answers = self._view().answers
        chosen = answers[self._chosen].key if self._chosen >= 0 else ""
        found = list(answer_rows(answers, width, get_cwidth, chosen))
        if self._follow:  # keep the chosen one in sight
            at = next((at for at, row in enumerate(found) if row.mark), 0)
            self._offset = len(self._laid[1]) + at - 1
            self._follow = False
        return found

    def _below(self) -> StyleAndTextTuples:
        if self._answering or not self._armed:
            said = "answering" if self._answering else "one moment"
            return [("class:quiet", f"  {said} …")]
        return [*self._unread(), *self._keys_or_answers(), *self._notes()]

    def _keys_or_answers(self) -> StyleAndTextTuples:
        view = self._view()
        if self._buffer.text and (self._not_an_answer or not self.is_free):
            drops = "sets it aside" if self._not_an_answer else "drops it"
            text = f"  Enter sends what you typed as a message; Tab {drops} to answer this"
            agrees = typed_answer(self.question, self._buffer.text.strip()) not in (None, "no")
            if agrees and not self.is_free:
                text = f"  words don't answer this: Tab {drops}, then press a single letter"
            return [("class:quiet", f"{text}\n")]
        if self.is_free:
            keys = "↑↓ choose, Enter answers; or " if view.answers else ""
            return [("class:quiet", f"  {keys}type an answer\n")]
        bar: StyleAndTextTuples = [("", "  ")]
        for at, one in enumerate(view.answers):
            chosen = at == self._chosen
            text = f"{'▸' if chosen else ' '}{one.key} {one.label} "
            bar += [("reverse" if chosen else "", text), ("", " ")]
        shows = ["←→ Enter", *(["v less" if self._whole else "v all"] if self._folds(view) else [])]
        shows += ["r rule"] if view.rule else []
        bar.append(("class:quiet", f"  {' · '.join(shows)}\n"))
        return [*bar, ("class:quiet", f"{self._meaning(view.answers)}\n")]

    def _least_below(self) -> Dimension:
        """Room for what is not read and for the keys: none answers where they cannot be seen."""
        unread = self._unread()
        text = "".join(text for _, text, *_ in (*unread, *self._keys_or_answers()))
        columns = get_app().output.get_size().columns
        lines = text.split("\n")[: len(unread) + 1]
        needed = sum(-(-get_cwidth(line) // columns) for line in lines)
        return Dimension(min=max(needed, 2), weight=50)

    def _folds(self, view: ConsentView) -> bool:
        """Whether more can be shown at once, or is."""
        room, at_first = self._room()
        grows = room > at_first and len(self._laid[1]) > self._height
        return self._whole or grows or any(one.extra for one in view.sections)

    def _meaning(self, answers: Sequence[ConsentAnswer]) -> str:
        text = f"    {answers[self._chosen].label}: {answers[self._chosen].meaning}"
        room = get_app().output.get_size().columns - 1
        if get_cwidth(text) <= room:
            return text
        return f"{wrapped(text, max(room - 19, 8), get_cwidth)[0]} … (scroll for all)"

    def _unread(self) -> StyleAndTextTuples:
        """Above the answers: a small terminal has no room for what is below them."""
        unread = self._read.count(0)
        more = f"  {count(unread, 'line')} not read yet: PgDn\n"
        return [("bold", more)] if unread else []

    def _notes(self) -> StyleAndTextTuples:
        """How many questions are open, when this one expires."""
        total = len(self._questions())
        words = [f"1 of {total}"] if total > 1 else []
        words += [left] if (left := expiry(self.question, time.time())) else []
        read = not self._read.count(0) and len(self._read) > self._height
        words += ["PgUp/PgDn scroll"] if read else []
        return [("class:quiet", f"  {' · '.join(words)}")]

    # keys

    def enter(self, typed: str) -> bool:
        """Enter was pressed; whether it answered, or may not do anything else."""
        if not self.is_open or typed.startswith("/"):
            return False
        if not typed:
            self._cancel()
            answers = self._view().answers
            if self._waits() and 0 <= self._chosen < len(answers):
                self._send(answers[self._chosen].value)
            return True
        answer = typed_answer(self.question, typed)
        if answer is None or self._not_an_answer or not self._armed:
            return False
        # Words may have been pasted or typed ahead: they can refuse, but not agree.
        if self.is_free or answer == "no":
            self._buffer.reset()
            self._send(answer)
        return True

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        open = Condition(lambda: self.is_open)
        waits = Condition(self._waits)
        free = Condition(lambda: self.is_free)
        pending = Condition(lambda: self._pending is not None)
        drafted = Condition(lambda: self._buffer.text[:1] not in ("", "/"))
        for letter in "ynsaYNvr?":
            keys.add(letter, filter=waits & ~free)(self._letter)
        for key, step in (("left", -1), ("right", 1)):
            keys.add(key, filter=waits & ~free)(lambda _, step=step: self._choose(step))
        for key, step in (("up", -1), ("down", 1)):
            keys.add(key, filter=waits & ~free)(lambda _, step=step: self._scroll(step))
            keys.add(key, filter=waits & free)(lambda _, step=step: self._choose(step))
        keys.add("pageup", filter=open)(lambda _: self._scroll(-self._page()))
        keys.add("pagedown", filter=open)(lambda _: self._scroll(self._page()))
        keys.add("home", filter=waits)(lambda _: self._scroll(-len(self._laid[1])))
        keys.add("end", filter=waits)(lambda _: self._scroll(len(self._laid[1])))
        keys.add("tab", filter=open & drafted)(lambda _: self._set_aside())
        keys.add(Keys.Any, filter=pending)(self._second)
        keys.add(Keys.BracketedPaste, filter=open)(self._pasted)
        return keys

    def _letters(self) -> dict[str, int]:
        """The answers by their letters."""
        return {one.key: at for at, one in enumerate(self._view().answers)}

    def _letter(self, event: KeyPressEvent) -> None:
        letter, waiting = event.data.lower(), event.app.key_processor.input_queue
        typed = bool(waiting) and (len(waiting[0].key) == 1 or waiting[0].key == Keys.ControlM)
        if typed or self._pending is not None:
            self._second(event)  # many letters at once are no answer
            return
        self._chosen = self._letters().get(letter, self._chosen)
        wait = asyncio.get_running_loop().call_later
        timer = wait(WORD_SECONDS, self._confirm, self._id, letter)
        self._pending = (event.data, timer)

    def _confirm(self, id: str, letter: str) -> None:
        """No other letter followed."""
        self._pending = None
        if self.question["id"] != id or not self._waits():
            return
        view, at = self._view(), self._letters().get(letter)
        if at is not None:
            self._send(view.answers[at].value)
        elif letter == "r" and view.rule:
            self._with_rule = not self._with_rule
            self._offset = 1_000_000 if self._with_rule else 0
        elif letter in ("v", "?") and self._folds(view):
            self._whole = not self._whole
        get_app().invalidate()

    def _second(self, event: KeyPressEvent) -> None:
        """Another key right behind a letter: both begin a message."""
        before = self._cancel()
        self._buffer.insert_text(before + event.data)

    def _cancel(self) -> str:
        """Forget a letter that has not answered yet; the letter."""
        if self._pending is None:
            return ""
        (letter, timer), self._pending = self._pending, None
        timer.cancel()
        return letter

    def _pasted(self, event: KeyPressEvent) -> None:
        answers = self._waits() and self.is_free
        self._buffer.insert_text(self._cancel())
        self._paste(event)
        self._not_an_answer = not answers

    def _set_aside(self) -> None:
        """A message that was begun before comes back; what was mistyped at the answers does not."""
        if self._not_an_answer:
            self._held = self._buffer.text
        self._buffer.reset()

    def _choose(self, step: int) -> None:
        if answers := self._view().answers:
            self._chosen = max(0, min(self._chosen + step, len(answers) - 1))
            self._follow = self.is_free

    def _scroll(self, step: int) -> None:
        self._offset = max(0, self._offset + step)

    def _page(self) -> int:
        return max(1, self._height - 1)
