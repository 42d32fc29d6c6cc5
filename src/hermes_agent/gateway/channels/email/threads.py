"""Conversations: what is known of the mails before an answer. It is kept in memory, and found again
in the mailbox."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.gateway.channels.email.imap import Imap, quoted
from hermes_agent.gateway.channels.email.reading import MailHeaders, head_of
from hermes_agent.gateway.channels.email.writing import MailThread
from hermes_agent.gateway.channels.shared import log

MAX_COUNT = 1_000


class Threads:
    def __init__(self) -> None:
        self._known: OrderedDict[str, MailThread] = OrderedDict()
        self._firsts: OrderedDict[str, str] = OrderedDict()

    def thread_of(self, head: MailHeaders) -> str:
        """The first mail of its conversation; a program that names only the mail it answers is
        helped out."""
        return self._firsts.get(head.thread, head.thread)

    def came(self, head: MailHeaders) -> None:
        before = (*head.references, head.id)
        self._keep(self.thread_of(head), MailThread(head.bare_subject, before))

    def went(self, thread: str, id: str, subject: str) -> None:
        before = self._known.get(thread)
        if before is None:
            self._keep(thread or id, MailThread(subject, (thread, id) if thread else (id,)))
        elif id not in before.references:
            self._keep(thread, replace(before, references=(*before.references, id)))

    def _keep(self, thread: str, conversation: MailThread) -> None:
        self._known[thread] = conversation
        self._known.move_to_end(thread)
        for id in conversation.references:
            self._firsts[id] = thread
            self._firsts.move_to_end(id)
        while len(self._known) > MAX_COUNT:
            self._known.popitem(last=False)
        while len(self._firsts) > MAX_COUNT * 10:
            self._firsts.popitem(last=False)

    async def before(
        self, thread: str, look: Callable[[str], Awaitable[MailHeaders | None]]
    ) -> MailThread | None:
        """What an answer in a conversation follows; None for one that we open."""
        if not thread:
            return None
        if thread not in self._known:
            try:
                found = await look(thread)
            except HermesError as error:  # an answer with a poorer head is better than none
                log.warning("a conversation is not found again: %s", error.message)
                found = None
            if found is None:
                return MailThread("", (thread,))
            self.came(found)
        return self._known.get(thread) or MailThread("", (thread,))


async def last_of(imap: Imap, folder: str, thread: str) -> MailHeaders | None:
    """The last mail of a conversation that is in a folder."""
    await imap.select(folder)
    name = quoted(thread)
    uids = await imap.search("OR", "HEADER", "Message-ID", name, "HEADER", "References", name)
    raw = await imap.fetch(uids[-1], "HEADER") if uids else None
    return await asyncio.to_thread(head_of, raw) if raw else None
