"""What people see before they answer a question: sections of marked lines, and what each answer
means. Pure data: every client lays it out in its own way, and none of it is cut here."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hermes_agent.core.text.terminal import visible

Mark = Literal["", "danger", "added", "removed", "quiet"]

CHOICES = {"no": "No", "yes": "Yes", "session": "Session", "always": "Always"}
"""The answers of consent, the safe one first. Their first letters are their keys."""
SHORT = 6
"""Lines of an effect that come before the reason."""
EXACT = 160
"""Characters of a text that a rule would allow exactly, in its sentence; the rule has all."""
_TITLES = {
    ("terminal", False): "Run this command",
    ("write_file", True): "Write the file",
    ("patch", True): "Change the file",
}
"""By tool, and whether a path follows."""
_ACCESS = {"read": "reading", "write": "writing", "delete": "deleting"}
_DIGEST = re.compile(r"…[0-9a-f]{64}\Z")
_HIDDEN = "[redacted:"
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")
_INDENT = "    "


@dataclass(frozen=True)
class ConsentLine:
    text: str
    mark: Mark = ""
    note: str = ""
    """Why it is dangerous, in words."""
    number: int = 0
    """Its number in a text of several lines."""


@dataclass(frozen=True)
class ConsentSection:
    title: str
    lines: tuple[ConsentLine, ...]
    prose: bool = False
    """Text for people rather than what a program gets."""
    extra: bool = False
    """Says nothing that another section does not; may be left out where there is little room."""


@dataclass(frozen=True)
class ConsentAnswer:
    value: str
    key: str
    label: str
    meaning: str = ""


@dataclass(frozen=True)
class ConsentView:
    title: str
    sections: tuple[ConsentSection, ...]
    answers: tuple[ConsentAnswer, ...]
    rule: tuple[str, ...] = ()
    """The rule that "always" adds, as YAML."""


def consent_view(question: Mapping[str, Any]) -> ConsentView:
    """The view of a question: the event `question_asked` or a row of `/v1/questions`."""
    if question["purpose"] == "approval" and question.get("reason"):
        title, sections = _effect_and_reason(question)
    else:
        title, *more = visible(question["text"]).split("\n")
        body = [_section("", more, prose=True)] if more else []
        sections = [*_risks(question), *body, *_people(question)]
    return ConsentView(title, tuple(sections), tuple(_answers(question)), _rule(question))


def numbered_choice(choices: Sequence[str], typed: str) -> str:
    """The choice with the number that was typed, else what was typed."""
    return {str(number): one for number, one in enumerate(choices, 1)}.get(typed, typed)


# what would happen


def _effect_and_reason(question: Mapping[str, Any]) -> tuple[str, list[ConsentSection]]:
    """What a call would do and why it is asked about: as a title, and as sections."""
    reason = question["reason"]
    tool, blocks = _call(question["text"].removesuffix(f"\n{reason}"))
    why = _section("why Hermes asks", visible(reason).split("\n"), prose=True)
    path = next((lines[0] for key, lines in blocks if key == "path" and len(lines) == 1), "")
    effect = list(_effect(question, [one for one in blocks if one != ("path", [path])]))
    short = sum(len(one.lines) for one in effect) <= SHORT
    asks = _TITLES.get((tool, bool(path))) or f"Allow {tool}"
    title = f"{_on_one_line(' '.join(filter(None, (asks, path, question.get('where', '')))))}?"
    between = (*effect, why) if short else (why, *effect)
    return title, [*_risks(question), *_people(question), *between]


def _call(shown: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """The tool, and its arguments as blocks of lines."""
    tool, _, given = shown.partition(" ")
    more: list[str] = []
    if (values := _object(given)) is None:
        given, *more = given.split("\n")
        values = _object(given)
    if values is not None and tool == "use_tool" and isinstance(values.get("arguments"), dict):
        tool, values = str(values.get("name")), values["arguments"]
    blocks: list[tuple[str, list[str]]] = []
    for key, value in (values if values is not None else {"arguments": given}).items():
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        blocks.append((key, said.split("\n")))
    for line in more:
        if line.startswith("| ") and blocks:
            blocks[-1][1].append(line[2:])
        elif line.startswith("rewritten to "):
            blocks.append(("runs instead, because of a rule", [line.removeprefix("rewritten to ")]))
        else:
            blocks.append((line.removesuffix(":"), []))
    return tool, blocks


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _effect(
    question: Mapping[str, Any], blocks: list[tuple[str, list[str]]]
) -> Iterator[ConsentSection]:
    change, *diff = question.get("change", "").split("\n")
    told = bool(diff) and _HIDDEN not in question["change"]
    notes = _notes(question.get("risks", ()))
    short = [(key, lines[0]) for key, lines in blocks if len(lines) == 1 and key != "command"]
    if short:
        yield _section("with", [f"{_on_one_line(key)}: {visible(text)}" for key, text in short])
    if diff:
        marked = {
            lines[at - 1]: note
            for key, lines in blocks
            for at, note in notes.get(key, {}).items()
            if 0 < at <= len(lines)
        }
        yield ConsentSection(visible(change), tuple(_diff_lines(diff, marked)))
    elif change:
        yield _section("the file", [visible(change)], prose=True)
    for key, lines in blocks:
        if len(lines) == 1 and key != "command":
            continue
        noted = notes.get(key, {})
        lines = lines[:-1] if lines[-1:] == [""] else lines  # the end of the last line
        several = len(lines) > 1
        whole = tuple(
            ConsentLine(
                visible(text),
                "danger" if number in noted else "",
                noted.get(number, ""),
                number if several else 0,
            )
            for number, text in enumerate(lines, 1)
        )
        counted = f" · {len(lines):,} lines" if several else ""
        yield ConsentSection(f"{_on_one_line(key)}{counted}", whole, extra=told)


def _notes(risks: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, str]]:
    """What is dangerous, by the argument and the line in which it is."""
    found: dict[str, dict[int, str]] = {}
    for risk in risks:
        noted, line = found.setdefault(risk.get("argument", ""), {}), risk.get("line", 0)
        said = noted.get(line, "")
        if risk["what"] not in said.split("; "):
            noted[line] = f"{said}; {risk['what']}" if said else risk["what"]
    return found


def _diff_lines(diff: list[str], marked: Mapping[str, str]) -> Iterator[ConsentLine]:
    number = 0
    for line in diff:
        note = marked.get(line[1:], "") if line.startswith("+") else ""
        mark: Mark = "danger" if note else ""
        if found := _HUNK.match(line):
            number, mark = int(found[1]) - 1, "quiet"
        elif line[:1] != "-":
            number += 1
        if not note and line[:1] in ("+", "-"):
            mark = "added" if line[0] == "+" else "removed"
        shown = 0 if mark in ("quiet", "removed") else number
        yield ConsentLine(visible(line), mark, note, shown)


def _risks(question: Mapping[str, Any]) -> Iterator[ConsentSection]:
    lines = []
    for risk in question.get("risks", ()):
        at = f", line {risk['line']}" if risk.get("line") else ""
        where = f" (in {risk['argument']}{at})" if at else ""
        text = f": {risk['text']}" if risk.get("text") else ""
        lines.append(ConsentLine(_on_one_line(f"{risk['what']}{text}{where}"), "danger"))
    if question["purpose"] == "approval" and _HIDDEN in question["text"]:
        lines.append(ConsentLine("a part looks like a secret and is NOT shown", "danger"))
    if lines:
        yield ConsentSection("dangerous", tuple(lines))


def _people(question: Mapping[str, Any]) -> Iterator[ConsentSection]:
    consent = question.get("consent") or {}
    lines = []
    if consent.get("by"):
        lines.append(f"can be answered by: {visible(', '.join(consent['by']))}")
    if consent.get("count", 1) > 1:
        agreed = visible(", ".join(question.get("agreed", ()))) or "nobody yet"
        lines.append(f"{consent['count']} people must agree; so far: {agreed}")
    if lines:
        yield _section("", lines, prose=True)


def _section(title: str, lines: Sequence[str], *, prose: bool = False) -> ConsentSection:
    return ConsentSection(title, tuple(map(ConsentLine, lines)), prose)


def _on_one_line(text: str) -> str:
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


# what the answers mean


def _answers(question: Mapping[str, Any]) -> Iterator[ConsentAnswer]:
    if question["purpose"] == "question":
        for number, choice in enumerate(question["choices"], 1):
            yield ConsentAnswer(choice, str(number), _on_one_line(choice))
        return
    meanings = {"no": "refuses it", "yes": "allows it once"}
    if question["purpose"] == "budget":
        meanings = {"no": "stops", "yes": "continues"}
    granted = _joined(map(grant_words, question.get("grants", ())))
    meanings["session"] = f"allows for this session: {granted}"
    ruled = _joined(rule_words(question.get("proposal", "")))
    meanings["always"] = f"adds a rule for every session: allow {ruled}"
    for value, label in CHOICES.items():
        if value in question["choices"]:
            yield ConsentAnswer(value, value[0], label, meanings[value])


def _rule(question: Mapping[str, Any]) -> tuple[str, ...]:
    offered = "always" in question["choices"] and question["purpose"] == "approval"
    return tuple(visible(question.get("proposal", "")).splitlines()) if offered else ()


def _joined(pairs: Iterable[tuple[str, str]]) -> str:
    """What is allowed on each terminal."""
    there: dict[str, list[str]] = {}
    for what, terminal in pairs:
        there.setdefault(terminal, []).append(what)
    return "; ".join(
        f"{'each of these: ' * (len(words) > 1)}{'; '.join(words)} on {name}"
        for name, words in there.items()
    )


def grant_words(grant: str) -> tuple[str, str]:
    """What a grant for the session covers, from its key (rule, subject, terminal), and where."""
    if grant.partition("@")[0] == "unconfined":
        where = grant.partition("@")[2] or "local"
        return "every command that would otherwise run confined", where
    _, _, rest = grant.partition("|")
    subject, _, terminal = rest.rpartition("|")
    return _subject_words(subject or rest), _on_one_line(terminal)


def _subject_words(subject: str) -> str:
    if subject.startswith("="):
        text, cut = _DIGEST.subn("", subject[1:])
        shown = _on_one_line(text)
        return f"exactly what is shown here, `{shown} …`" if cut else f"exactly `{shown}`"
    word, _, rest = subject.partition(" ")
    if word in _ACCESS and rest:
        return f"{_ACCESS[word]} {_on_one_line(rest)}"
    if word == "host" and rest:
        return f"connections to {_on_one_line(rest)}"
    return f"any `{_on_one_line(subject)}`"


def rule_words(proposal: str) -> Iterator[tuple[str, str]]:
    """What each proposed rule would allow, in plain words, and where."""
    for item in f"\n{proposal}".split("\n- id: ")[1:]:
        match: dict[str, Any] = {}
        for line in item.split("\n"):
            key, colon, value = line.strip().partition(": ")
            if line.startswith(_INDENT) and colon:
                match[key] = json.loads(value)
        yield _match_words(match), _plain(match.get("terminal", ""))


def _match_words(match: Mapping[str, Any]) -> str:
    given = match.get("input", {})
    through = f" through {_plain(match['via'])}" if match.get("via") else ""
    if "command" in given:
        return f"exactly the whole command, `{_start(_plain(given['command']))}`"
    if "text" in match:
        return f"exactly `{_start(_plain(match['text']))}`{through}"
    if "path" in match:
        return f"{_ACCESS.get(match.get('access', ''), 'touching')} {_plain(match['path'])}"
    if "program" in match:
        words = " ".join(filter(None, (_plain(match["program"]), _plain(match["verb"]))))
        return f"any `{words}` with any arguments{through}"
    reached = f"connections to {_plain(match['host'])}" if "host" in match else ""
    if "tool" in match:
        call = [f"any call of {_plain(match['tool'])}"]
        call += [
            f"without {name}" if value is None else f"with the {name} {_plain(value)}"
            for name, value in given.items()
        ]
        return " ".join(call) + (reached and f", {reached}")
    return reached or "what the rule says"


def _start(text: str) -> str:
    return text if len(text) <= EXACT else f"{text[:EXACT]} …` and the rest, which `r` shows"


def _plain(value: str | Sequence[str]) -> str:
    """Globs that fit one text only, as that text."""
    texts = [value] if isinstance(value, str) else value
    return ", ".join(_on_one_line(re.sub(r"\[([*?[{$])\]", r"\1", text)) for text in texts)
