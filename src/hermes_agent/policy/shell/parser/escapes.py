r"""What stands in `$'…'`."""

import re

from hermes_agent.policy.shell.parser.syntax import UnreadableShell

_ESCAPE = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})"
    r"|U([0-9a-fA-F]{1,8})|c(.))",
    re.DOTALL,
)
_ESCAPED = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def unescape(text: str) -> str:
    r"""What `$'text'` stands for. Bytes that are not UTF-8 cannot be told apart."""
    data = bytearray()
    at = 0
    while at < len(text):
        if text[at] != "\\":
            data += text[at].encode()
            at += 1
            continue
        found = _ESCAPE.match(text, at)
        if found is None:
            if text[at + 1 : at + 2] in {"x", "u", "U", "c"}:
                raise UnreadableShell("an escape without its code")
            data += b"\\"
            at += 1
            continue
        sign, octal, byte, short, long, control = found.groups()
        if sign:
            data += _ESCAPED[sign].encode()
        elif octal:
            data.append(int(octal, 8) & 255)
        elif byte:
            data.append(int(byte, 16))
        elif control:
            raise UnreadableShell("a control escape")
        else:
            code = int(short or long, 16)
            if code >= 0x110000 or 0xD800 <= code < 0xE000:
                raise UnreadableShell("an escape for no character")
            data += chr(code).encode()
        at = found.end()
    # bash ends the string at a NUL
    try:
        return bytes(data).split(b"\0", 1)[0].decode()
    except UnicodeDecodeError:
        raise UnreadableShell("bytes that are not text") from None
