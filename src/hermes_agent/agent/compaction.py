"""Compaction: when the context window is nearly full, a summary replaces the middle of the
conversation. The prompt, the first and the last messages stay."""

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
"""The fewest messages worth a summary."""


def due(conversation: ConversationState, settings: LoopSettings, context: int) -> bool:
    return conversation.context_tokens > settings.compact_at * context


def middle(
    conversation: ConversationState, settings: LoopSettings, context: int
) -> tuple[int, int] | None:
    """The range of messages to summarise; None when there is nothing to gain. Tool results stay
    with their reply, and a long tail is shortened until there is room to work."""
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
    """The conversation up to `last`, then the instruction: the provider's cache still applies."""
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
