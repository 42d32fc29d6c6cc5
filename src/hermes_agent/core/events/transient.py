"""What a turn tells its listeners and the journal does not keep."""

from msgspec import Struct


class Told(Struct, frozen=True, tag_field="kind"):
    """Something that a turn tells: an event of the journal, or one that passes."""


class TextArrived(Told, frozen=True, tag="text_arrived"):
    """A piece of the reply that is being streamed."""

    text: str


class ThoughtArrived(Told, frozen=True, tag="thought_arrived"):
    """A piece of the model's reasoning that is being streamed."""

    text: str


class TextVoided(Told, frozen=True, tag="text_voided"):
    """The pieces since the last reply do not count: the stream broke and is tried again."""

    reason: str


class OutputArrived(Told, frozen=True, tag="output_arrived"):
    """A running command printed something."""

    effect: str
    text: str


class MessageQueued(Told, frozen=True, tag="message_queued"):
    """A message was stored and waits for the session's next step."""

    key: str
    text: str


class RuntimeChanged(Told, frozen=True, tag="runtime_changed"):
    """The runtime as a whole is well, degraded or stopping."""

    state: str
    reason: str = ""


Passing = TextArrived | ThoughtArrived | TextVoided | OutputArrived | MessageQueued | RuntimeChanged
"""What is streamed to listeners and not kept."""
