"""What curl and wget send to hosts."""

import re
from typing import Protocol

from hermes_agent.core.effects import Access
from hermes_agent.policy.shell.interpreter.state import ExpandedWord
from hermes_agent.policy.shell.programs.table import Reading

_SMUGGLED = re.compile(
    r"[\x00-\x1f]|(?i:\s*(?:x-http-method|x-method|.*-override|transfer-encoding|content-length)\b)"
)


class RequestCall(Protocol):
    reading: Reading
    computed: bool

    def place(self, field: ExpandedWord, access: Access) -> None: ...

    def unknown(self, field: ExpandedWord, reason: str) -> None: ...


def data(call: RequestCall, field: ExpandedWord, option: str) -> None:
    """curl's data: `@file`, or `name=@file` and `name=<file` in a form."""
    text = field.prefix if field.dynamic else field.text
    found = re.match(r"(?:[^=@]*=)?[@<](.*)", text) if option in {"-F", "--form"} else None
    if text.startswith("@") and option in {"-H", "--header"}:
        call.unknown(field, "each line is sent")
    elif text.startswith("@"):
        sent(call, ExpandedWord(text[1:], field.dynamic), option)
    elif found or (field.dynamic and not text):
        name = found.group(1) if found else field.text
        sent(call, ExpandedWord(name, field.dynamic), option)
    elif option in {"--data-urlencode", "--url-query"} and "@" in text.partition("=")[0]:
        sent(call, ExpandedWord(text.partition("@")[2], field.dynamic), option)


def sent(call: RequestCall, field: ExpandedWord, _option: str) -> None:
    """A file whose content the host gets."""
    call.place(field, "read")
    call.computed = True


def cookie(call: RequestCall, field: ExpandedWord, option: str) -> None:
    """curl's `-b`: data when there is a `=` in it, else a file."""
    if field.dynamic or "=" not in field.text:
        sent(call, field, option)


def check_request(call: RequestCall) -> None:
    """Lines within a line are requests of their own, and some headers make another of this one."""
    for option, _, field in (*call.reading.values, *(("", r, f) for r, f in call.reading.operands)):
        text = "" if option in {"-w", "--write-out", "--data-urlencode"} else field.text
        if _SMUGGLED.match(text) or "\n" in text or "\r" in text:
            call.unknown(field, "it may not be the request that it appears to be")
