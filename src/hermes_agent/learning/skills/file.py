"""Parses and checks skills in the format of agentskills.io. Our own fields are below `metadata`,
with the prefix `hermes-`, so that other agents can read the same file."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.gateway import SessionPlace, chat_of
from hermes_agent.core.incidents import CATEGORIES
from hermes_agent.core.skills import SkillLimits
from hermes_agent.learning.skills.folder import (
    ALL_BYTES,
    FILE_BYTES,
    MAIN,
    RUNBOOK,
    decoded,
    main_file,
    read_folder,
)  # fmt: skip
from hermes_agent.learning.skills.frontmatter import (
    Front,
    SkillProblem,
    Value,
    plain_name,
    read_front,
    skill_error,
)
from hermes_agent.learning.skills.template import (
    SERVICE_FACTS,
    SkillParameter,
    fenced,
    placeholders,
    read_parameters,
    snippet_troubles,
)  # fmt: skip

BODY_LINES = 500
FOLDERS = ("references", "scripts", "templates", "assets")
OURS = (
    "hermes-category", "hermes-tags", "hermes-platforms", "hermes-requires-tools",
    "hermes-fallback-for-tools", "hermes-parameters", "hermes-paths", "hermes-hosts",
    "hermes-incident", "hermes-channels", "hermes-groups",
)  # fmt: skip
TOOLS = {
    "Bash": "terminal", "Read": "read_file", "Write": "write_file", "Edit": "patch",
    "MultiEdit": "patch", "Grep": "search_files", "Glob": "search_files", "WebFetch": "web_fetch",
    "WebSearch": "web_search", "Task": "delegate", "TodoWrite": "todo",
}  # fmt: skip
"""What other agents call our tools."""
BUILT_IN = (
    *dict.fromkeys(TOOLS.values()), "ask_user", "browser", "browser_act", "execute_code",
    "find_tools", "incident", "make_tool", "memory", "process", "read_on", "recall", "send_message",
    "skill", "task", "use_tool", "write_skill", "alertmanager", "argocd", "calendar", "containers",
    "git_host", "journal", "kubernetes", "log_files", "loki", "make_image", "mysql", "opensearch",
    "open_pull_request", "postgresql", "probe", "prometheus", "read_feed", "redis", "remind",
    "silence_alerts", "speak", "transcribe", "what_changed",
)  # fmt: skip
"""Our tools; other names are those of MCP servers and of tools that the agent wrote."""
PLACES = (
    "cli", "library", "job", "incident", "discord", "email", "matrix", "ntfy", "slack", "telegram",
    "webhook",
)  # fmt: skip
"""Where skills can be limited to, besides channels of the user's own."""
ALIKE = 0.85
"""So similar is a misspelt name."""
PLATFORMS = {"macos": "darwin", "win32": "windows"}

_TOOL = re.compile(r"([^\s,()]+)(\([^()]*\))?")
_TRIGGER = re.compile(
    r"\b(when|whenever|if|before|after|while|once|for|use[ds]?|asks?|needs?)\b", re.IGNORECASE
)
_LINK = re.compile(
    r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|`((?:references|scripts|templates|assets)/[^`\s]+)`"
)
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*)$", re.MULTILINE)


class SkillFacts(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str
    category: str = ""
    tags: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    """Where it can be used; empty: everywhere."""
    requires: tuple[str, ...] = ()
    """Tools without which it is not offered."""
    fallback_for: tuple[str, ...] = ()
    """Not offered where all of these tools are available."""
    license: str = ""
    compatibility: str = ""
    incident: str = ""
    """The incident category it is for."""
    channels: tuple[str, ...] = ()
    """Channels, or chats as targets, to which it is limited."""
    groups: tuple[str, ...] = ()
    """Ids of chats, on any channel, to which it is limited."""

    def belongs(self, place: SessionPlace) -> bool:
        """Whether it may be used in a session that talks there."""
        if not (self.channels or self.groups):
            return True
        chat = place.chat.chat if place.chat is not None else None
        return chat in self.groups or not place.targets.isdisjoint(self.channels)

    @property
    def places(self) -> str:
        """What it is limited to, in words; empty if it is not."""
        return ", ".join((*self.channels, *(f"group {one}" for one in self.groups)))

    def fits(self, tools: "frozenset[str]", platform: str) -> bool:
        if self.platforms and platform not in self.platforms:
            return False
        covered = bool(self.fallback_for) and tools.issuperset(self.fallback_for)
        return tools.issuperset(self.requires) and not covered


class SkillText(Struct, frozen=True):
    facts: SkillFacts
    body: str
    bounds: SkillLimits | None = None
    parameters: tuple[SkillParameter, ...] = ()
    problems: tuple[SkillProblem, ...] = ()

    @property
    def broken(self) -> str:
        """Why it cannot be used; empty if it can."""
        return next((each.message for each in self.problems if each.severity == "error"), "")


def parse(text: str, folder_name: str = "") -> SkillText:
    """Read a `SKILL.md`; what is wrong with it is in `problems`."""
    front = read_front(text, folder_name)
    found = list(front.troubles)
    extra = _Metadata(front, found)
    parameters = extra.parameters()
    name = plain_name(front.text("name"))
    bounds = SkillLimits(
        name, extra.allowed_tools(), extra.words("hermes-paths"), extra.words("hermes-hosts")
    )
    facts = SkillFacts(
        name,
        front.text("description"),
        category=" ".join(extra.text("hermes-category").split()),
        tags=extra.words("hermes-tags"),
        platforms=tuple(PLATFORMS.get(each, each) for each in extra.words("hermes-platforms")),
        requires=_ours(extra.words("hermes-requires-tools")),
        fallback_for=_ours(extra.words("hermes-fallback-for-tools")),
        license=front.text("license"),
        compatibility=front.text("compatibility"),
        incident=extra.cause(),
        channels=tuple(chat_of(each).target for each in extra.words("hermes-channels")),
        groups=extra.words("hermes-groups"),
    )
    found += snippet_troubles(front.body, parameters)
    return SkillText(
        facts,
        front.body,
        bounds if bounds != SkillLimits(name) else None,
        parameters,
        (
            *found,
            *extra.doubts(),
            *_misspelt("tool", BUILT_IN, bounds.tools, facts.requires, facts.fallback_for),
            *_misspelt("channel", PLACES, [one.partition(":")[0] for one in facts.channels]),
        ),
    )


def widens(before: SkillLimits | None, after: SkillLimits | None) -> bool:
    """Whether the second allows what the first did not, by what they declare."""
    if before is None:
        return False
    pairs = [
        (before.tools, after.tools if after else ()),
        (before.paths, after.paths if after else ()),
        (before.hosts, after.hosts if after else ()),
    ]
    return any(old and (not new or not set(new) <= set(old)) for old, new in pairs)


def problems(skill: Path | Mapping[str, bytes], name: str = "") -> Sequence[SkillProblem]:
    """What is wrong with a skill, errors first: its folder, or its files by their paths. With
    `name`, also whether it has that name."""
    found: list[SkillProblem] = []
    if isinstance(skill, Path):
        try:
            folder = read_folder(skill)
        except NotADirectoryError:
            return [
                skill_error(f"{str(skill)!r} is not a folder", f"a skill is a folder with {MAIN}")
            ]
        except OSError as trouble:
            return [skill_error(f"{str(skill)!r} cannot be read: {trouble.strerror}")]
        found += [_warning(said, hint) for said, hint in folder.left_out]
        found += _of_files(folder.files, name or skill.resolve().name)
    else:
        found += _of_files(skill, name)
    return sorted(found, key=lambda problem: problem.severity)


def section(body: str, heading: str) -> str:
    """The text below the first heading with these words; empty if there is none."""
    code = fenced(body)
    headings = [
        match
        for match in _HEADING.finditer(body)
        if not any(begin <= match.start() < end for begin, end in code)
    ]
    ends = [*(match.start() for match in headings[1:]), len(body)]
    for match, end in zip(headings, ends, strict=False):
        if heading.casefold() in match[1].casefold():
            return body[match.end() : end].strip()
    return ""


def _misspelt(what: str, known: Sequence[str], *named: Sequence[str]) -> Iterator[SkillProblem]:
    """Names that are probably meant to be others: nothing would ever match them."""
    for name in dict.fromkeys(one.partition("(")[0] for names in named for one in names):
        near = () if name in known else get_close_matches(name, known, 1, ALIKE)
        if near:
            yield _warning(f"no {what} is called {name!r}", f"did you mean {near[0]}?")


def _ours(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(TOOLS.get(name, name) for name in names))


class _Metadata:
    """Reads the fields below `metadata` and collects problems."""

    def __init__(self, front: Front, found: list[SkillProblem]) -> None:
        metadata = front.fields.get("metadata", {})
        self._values = metadata if isinstance(metadata, dict) else {}
        self._tools: Value = front.fields.get("allowed-tools", "")
        self._found = found
        self._lost = metadata not in ("", {}) and not isinstance(metadata, dict)

    def text(self, field: str) -> str:
        value = self._values.get(field, "")
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return "\n".join(str(each) for each in value)
        if isinstance(value, str):
            return value.strip()
        self._found.append(skill_error(f"{field} is not text", f"write {field}: one two three"))
        return ""

    def words(self, field: str) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(shlex.split(self.text(field))))
        except ValueError as error:
            hint = "separate words with spaces; quote a word that contains one"
            self._found.append(skill_error(f"{field} cannot be read: {error}", hint))
            return ()

    def parameters(self) -> tuple[SkillParameter, ...]:
        try:
            return read_parameters(self.text("hermes-parameters"))
        except UsageError as error:
            self._found.append(skill_error(f"hermes-parameters: {error.message}", error.hint))
            return ()

    def cause(self) -> str:
        named = self.text("hermes-incident")
        if named and named not in CATEGORIES:
            meant = f"one of: {', '.join(CATEGORIES)}"
            self._found.append(skill_error(f"no incident category is called {named!r}", meant))
        return named

    def allowed_tools(self) -> tuple[str, ...]:
        given = self._tools
        if isinstance(given, list):
            given = " ".join(str(each) for each in given)
        if not isinstance(given, str):
            self._found.append(skill_error("allowed-tools is not text"))
            return ()
        left = _TOOL.sub("", given).replace(",", "").strip()
        if left:
            hint = "separate names with spaces, such as `read_file terminal(git:*)`"
            self._found.append(skill_error(f"allowed-tools cannot be read: {left!r}", hint))
        found = (TOOLS.get(name, name) + inside for name, inside in _TOOL.findall(given))
        return tuple(dict.fromkeys(found))

    def doubts(self) -> Iterator[SkillProblem]:
        if self._lost:
            yield _warning("metadata has no fields", "write `field: value` lines below")
        for field in self._values:
            if field.startswith("hermes-") and field not in OURS:
                near = get_close_matches(field, OURS, 1)
                meant = f"did you mean {near[0]}?" if near else f"available: {', '.join(OURS)}"
                yield _warning(f"{field} is not a known field", meant)


def _warning(message: str, hint: str = "") -> SkillProblem:
    return SkillProblem("warning", message, hint)


def _of_files(files: Mapping[str, bytes], name: str) -> Iterator[SkillProblem]:
    main = main_file(files)
    if not main:
        yield skill_error(f"there is no {MAIN}", "it contains the frontmatter and the procedure")
        return
    text = decoded(files[main])
    if text is None:
        yield skill_error(f"{main} is not UTF-8 text")
        return
    skill = parse(text, name)
    yield from skill.problems
    yield from _of_bounds(skill.bounds)
    yield from _of_runbook(files, skill)
    if not skill.broken:
        yield from _of_words(skill)
    yield from _of_links(skill.body, files)
    yield from _of_sizes(files, main)


def _of_bounds(bounds: SkillLimits | None) -> Iterator[SkillProblem]:
    if bounds is None:
        return
    from hermes_agent.policy.skill_limits import trouble

    said = trouble(bounds)
    if said:
        yield skill_error(said, "while they cannot be read, nothing would be allowed")


def _of_runbook(files: Mapping[str, bytes], skill: SkillText) -> Iterator[SkillProblem]:
    if RUNBOOK not in files:
        return
    from hermes_agent.learning.skills.runbook import load

    text = decoded(files[RUNBOOK])
    if text is None:
        yield skill_error(f"{RUNBOOK} is not UTF-8 text")
        return
    try:
        facts = dict.fromkeys(SERVICE_FACTS, "x") if skill.facts.incident else None
        load(text, {each.name: each.default or "x" for each in skill.parameters}, facts)
    except HermesError as error:
        yield skill_error(f"{RUNBOOK}: {error.message}", error.hint)


def _of_words(skill: SkillText) -> Iterator[SkillProblem]:
    for heading, why in (
        ("When to Use", "it is used to find the right skill"),
        ("Verification", "it says how to see that it worked"),
    ):
        if not section(skill.body, heading):
            yield _warning(f"there is no section {heading!r}", why)
    description = skill.facts.description
    if description.isascii() and not _TRIGGER.search(description):
        yield _warning("the description does not say when to use it", "add “Use when …”")
    if skill.body.count("\n") >= BODY_LINES:
        yield _warning(
            f"the text has more than {BODY_LINES} lines, all of which the model reads",
            "move details into references/",
        )
    known = {each.name for each in skill.parameters}
    known |= set(SERVICE_FACTS) if skill.facts.incident else set()
    for name in sorted(placeholders(skill.body) - known if known else ()):
        yield _warning(
            f"{{{{{name}}}}} is not a parameter", "declare it in hermes-parameters, or remove it"
        )


def _of_links(body: str, files: Mapping[str, bytes]) -> Iterator[SkillProblem]:
    links = (link or path for link, path in _LINK.findall(_without_code(body)))
    for link in dict.fromkeys(links):
        path = link.partition("#")[0].removeprefix("./")
        if not path or re.match(r"[a-z][a-z0-9+.-]*:|/|~", path, re.IGNORECASE) or "{" in path:
            continue
        inside = path.rstrip("/")
        if inside not in files and not any(each.startswith(f"{inside}/") for each in files):
            yield _warning(f"there is no file {path!r}, which the text links to")


def _of_sizes(files: Mapping[str, bytes], main: str) -> Iterator[SkillProblem]:
    for path, data in files.items():
        if path not in (main, RUNBOOK) and path.partition("/")[0] not in FOLDERS:
            hint = f"it belongs in {', '.join(f'{each}/' for each in FOLDERS)}"
            yield _warning(f"{path!r} is not where agents look", hint)
        if len(data) > FILE_BYTES:
            yield _warning(f"{path!r} has more than {FILE_BYTES // 1_000_000} MB")
        elif decoded(data) is None:
            yield _warning(f"{path!r} is not text; the agent cannot read it")
    if sum(map(len, files.values())) > ALL_BYTES:
        yield _warning(f"all files together have more than {ALL_BYTES // 1_000_000} MB")


def _without_code(body: str) -> str:
    parts, at = [], 0
    for begin, end in fenced(body):
        parts.append(body[at:begin])
        at = end
    return "".join([*parts, body[at:]])
