"""Extracts the new text of a mail, without quotes and signature; converts HTML to text."""

import re
from html.parser import HTMLParser

_SAID = (
    r"On\b.{4,200}\bwrote",
    r"Am\b.{4,200}\bschrieb\b.{0,200}",
    r"Le\b.{4,200}\ba écrit",
    r"El\b.{4,200}\bescribió",
    r"Il\b.{4,200}\bha scritto",
    r"Op\b.{4,200}\bschreef\b.{0,200}",
    r"Em\b.{4,200}\bescreveu",
    r".{2,200}<[^<>\s]+@[^<>\s]+>\s*(?:wrote|schrieb)?",
)
_INTRODUCED = re.compile(rf"(?:{'|'.join(_SAID)})\s*:", re.DOTALL)
"""Lines that mail programs put before a quote."""
_ORIGINAL = re.compile(
    r"-{3,}\s*(?:Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original"
    r"|Messaggio originale|Oorspronkelijk bericht)\s*-{3,}\s*",
    re.IGNORECASE,
)
_HEAD = re.compile(r"\*?(?:From|Von|De|Da|Van)\s?:\*?\s")
_HEAD_TOO = re.compile(r"\*?(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado|Inviato|Verzonden)\s?:\*?\s")
_FORWARDED = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|doorst)\s*:", re.IGNORECASE)
MAX_LENGTH = 600
MAX_INTRODUCING = 3
"""Lines over which such an introduction may be wrapped."""


def own_words(text: str, subject: str, *, answers: bool) -> str:
    """The new text of a mail. Forwarded text stays, and so do quotes between lines of a reply."""
    whole = text.replace("\r\n", "\n").strip("\n")
    lines = _unsigned(whole.split("\n"))
    if answers and not _FORWARDED.match(subject):
        lines = _without_leading(_without_trailing(_before_original(lines)))
    return "\n".join(lines).strip("\n") or whole


def _unsigned(lines: list[str]) -> list[str]:
    for number in range(len(lines) - 1, -1, -1):
        if lines[number] == "-- ":
            return lines[:number]
    return lines


def _before_original(lines: list[str]) -> list[str]:
    """The lines above an unmarked copy of the original mail."""
    for number, line in enumerate(lines):
        following = lines[number + 1 : number + 4]
        if _ORIGINAL.fullmatch(line.strip()) or (
            _HEAD.match(line) and any(_HEAD_TOO.match(one) for one in following)
        ):
            above = lines[:number]
            while above and not above[-1].strip(" _-"):
                above.pop()
            return above
    return lines


def _without_trailing(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and (_is_quote(lines[end - 1]) or not lines[end - 1].strip()):
        end -= 1
    if not any(_is_quote(line) for line in lines[end:]):
        return lines
    return _without_introduction(lines[:end])


def _without_introduction(lines: list[str]) -> list[str]:
    for count in range(1, MAX_INTRODUCING + 1):
        joined = " ".join(lines[-count:]).strip()
        if count <= len(lines) and len(joined) < MAX_LENGTH and _INTRODUCED.fullmatch(joined):
            return lines[:-count]
    return lines


def _without_leading(lines: list[str]) -> list[str]:
    """Removes a quote above the whole reply."""
    quoted = [number for number, line in enumerate(lines) if _is_quote(line)]
    if not quoted:
        return lines
    first, last = quoted[0], quoted[-1]
    is_one = all(_is_quote(line) or not line.strip() for line in lines[first : last + 1])
    above = _without_introduction([line for line in lines[:first] if line.strip()])
    return lines[last + 1 :] if is_one and not above else lines


def _is_quote(line: str) -> bool:
    return line.startswith(">")


def unflowed(text: str, *, delsp: bool) -> str:
    """Joins the lines of format=flowed paragraphs (RFC 3676)."""
    lines: list[str] = []
    goes_on = False
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        line = line[1:] if not depth and line.startswith(" ") else line
        if goes_on and not depth:
            lines[-1] += line
        else:
            lines.append(line)
        goes_on = line.endswith(" ") and line != "-- " and not depth
        if goes_on and delsp:
            lines[-1] = lines[-1][:-1]
    return "\n".join(lines)


_BLOCKS = frozenset((
    "address", "article", "blockquote", "div", "dl", "dt", "dd", "fieldset", "figure", "footer",
    "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p",
    "pre", "section", "table", "tr", "ul",
))  # fmt: skip
_HIDDEN = frozenset(("script", "style", "head", "title", "template", "noscript"))
_VOID = frozenset(
    ("br", "hr", "img", "input", "meta", "link", "wbr", "area", "base", "col", "embed")
)
_QUOTES = ("gmail_quote", "moz-cite-prefix", "yahoo_quoted", "protonmail_quote")


class _Text(HTMLParser):
    def __init__(self, *, answers: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._answers = answers
        self._parts: list[str] = []
        self._hidden: list[str] = []
        self._link: tuple[str, int] | None = None
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        if self._hidden:
            if tag == self._hidden[0] and tag not in _VOID:
                self._hidden.append(tag)
            return
        if (tag in _HIDDEN or self._is_quoted(tag, facts)) and tag not in _VOID:
            self._hidden.append(tag)
            return
        if tag == "br":
            self._parts.append("\n")
        elif tag in _BLOCKS:
            self._break()
            self._parts += ["- "] if tag == "li" else []
            self._pre += tag == "pre"
        elif tag in ("td", "th"):
            self._parts.append(" ")
        elif tag == "a":
            self._link = facts.get("href", ""), len(self._parts)
        elif tag == "img" and facts.get("alt"):
            self._parts.append(facts["alt"])

    def _is_quoted(self, tag: str, facts: dict[str, str]) -> bool:
        if not self._answers:
            return False
        cited = tag == "blockquote" and facts.get("type") == "cite"
        return cited or any(one in facts.get("class", "").split() for one in _QUOTES)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag == self._hidden[0]:
                self._hidden.pop()
        elif tag in _BLOCKS:
            self._break()
            self._pre -= bool(tag == "pre" and self._pre)
        elif tag == "a" and self._link:
            (address, start), self._link = self._link, None
            label = "".join(self._parts[start:]).strip()
            if address.startswith(("http://", "https://")) and address.rstrip("/") not in label:
                self._parts.append(f" ({address})")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data if self._pre else re.sub(r"\s+", " ", data))

    def _break(self) -> None:
        if self._parts and not self._parts[-1].endswith("\n"):
            self._parts.append("\n")

    def text(self) -> str:
        lines = [line.strip(" ") for line in "".join(self._parts).split("\n")]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).replace("\xa0", " ").strip("\n")


_UNFINISHED = re.compile(r"<(?![^<>]{0,4000}>)")


def _tamed(html: str) -> str:
    """Removes comments and unfinished tags, on which the parser takes quadratic time."""
    kept, at = [], 0
    while (begin := html.find("<!--", at)) >= 0 and (end := html.find("-->", begin + 4)) >= 0:
        kept.append(html[at:begin])
        at = end + 3
    return _UNFINISHED.sub("&lt;", "".join([*kept, html[at:]]))


def text_of(html: str, *, answers: bool) -> str:
    """HTML as text; for a reply, without quotes."""
    reader = _Text(answers=answers)
    reader.feed(_tamed(html))
    reader.close()
    said = reader.text()
    return said if said or not answers else text_of(html, answers=False)
