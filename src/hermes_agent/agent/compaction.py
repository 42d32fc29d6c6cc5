"""Compaction: near the window's end the middle of a conversation is replaced by a summary. The
prompt, the first messages and the last ones stay."""

from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core.messages import Message, Request, ToolMessage, UserMessage
from hermes_agent.core.settings.root import LoopSettings

INSTRUCTION = UserMessage(
    "Your context is nearly full. Write a summary of this conversation so far that you can work "
    "on from, and nothing else: the task as the user gave it and every later wish of theirs; what "
    "was done and found out, with names, paths, numbers and decisions; what is still to be done; "
    "what failed and why. Do not call tools."
)

LEAST = 4
"""Fewer messages than this are not worth a summary."""


def due(conversation: ConversationState, settings: LoopSettings, context: int) -> bool:
    return conversation.context_tokens > settings.compact_at * context


def middle(
    conversation: ConversationState, settings: LoopSettings, context: int
) -> tuple[int, int] | None:
    """Which messages to summarise, from the first up to but not including the last; None when
    there is nothing to gain. Results stay with the reply that asked for them, and a long tail is
    shortened until it leaves room to work in."""
    first = _after_results(conversation.messages, settings.keep_first)
    keep = settings.keep_last
    while keep >= 0:
        last = _before_results(conversation.messages, max(first, len(conversation.messages) - keep))
        tail = sum(_size(message) for message in conversation.messages[last:])
        if tail <= settings.compact_at * context / 2 or keep == 0:
            break
        keep //= 2
    return (first, last) if last - first >= LEAST else None


def summary_request(conversation: ConversationState, last: int) -> Request:
    """The conversation up to `last` and the instruction: it begins with the bytes the provider has
    seen before, so its cache is used once more."""
    return Request(
        conversation.prompt,
        (*conversation.messages[:last], INSTRUCTION),
        session=conversation.session,
    )


def _after_results(messages: list[Message], position: int) -> int:
    while position < len(messages) and isinstance(messages[position], ToolMessage):
        position += 1
    return position


def _before_results(messages: list[Message], position: int) -> int:
    while 0 < position < len(messages) and isinstance(messages[position], ToolMessage):
        position -= 1
    return position


def _size(message: Message) -> int:
    calls = getattr(message, "calls", ())
    return (len(message.text) + sum(len(call.arguments) for call in calls)) // 4
