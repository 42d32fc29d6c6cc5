"""We read what the format's reference reads, and refuse what it refuses."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import skills_ref
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.skills import SkillLimits
from hermes_agent.gateway.registry import BUILT_IN as CHANNELS
from hermes_agent.learning.skills.file import BUILT_IN, PLACES, parse, problems, section
from hermes_agent.learning.skills.frontmatter import SkillProblem, read_front
from hermes_agent.runtime.tools import builtin
from tests.support.skills import put_skill, skill_text

PLAIN = "name: a\ndescription: b\n"


def reference_refuses(folder: Path, text: str) -> bool:
    """A file that makes the reference fail is refused too."""
    (folder / "SKILL.md").write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        return bool(skills_ref.validate(folder))
    except (AssertionError, AttributeError, UnicodeError, ValueError):
        return True


def refused(text: str, name: str = "a") -> bool:
    return bool(read_front(text, name).troubles)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "a").mkdir()
        yield Path(place) / "a"


def fenced(head: str) -> str:
    return f"---\n{head}---\n\nDo it.\n"


ODD = [
    "",
    "\n",
    "# only a comment\n",
    "- a\n- b\n",
    "text\n",
    "name: a\n",
    "description: b\n",
    PLAIN,
    f"{PLAIN}license: MIT\n",
    f"{PLAIN}license:\n  - MIT\n",
    f"{PLAIN}other: x\n",
    f"{PLAIN}metadata:\n",
    f"{PLAIN}metadata: text\n",
    f"{PLAIN}metadata:\n  - x\n",
    f"{PLAIN}metadata: {{a: b}}\n",
    f"{PLAIN}metadata: []\n",
    f"{PLAIN}metadata:\n\tx: y\n",
    f"{PLAIN}metadata:\n  a: b\n  a: c\n",
    f"{PLAIN}metadata:\n  1: b\n  '1': c\n",
    f"{PLAIN}metadata:\n  a:\n    b: c\n",
    f"{PLAIN}metadata:\n  a:\n    b: c\n  d:\n     e: f\n",
    f"{PLAIN}metadata:\n  ? - a\n  : b\n",
    f"{PLAIN}metadata:\n  : b\n",
    f"{PLAIN}metadata: *x\n",
    f"{PLAIN}compatibility: {'c' * 500}\n",
    f"{PLAIN}compatibility: {'c' * 501}\n",
    f"{PLAIN}compatibility:\n  - c\n",
    f"{PLAIN}compatibility:\n",
    f"{PLAIN}allowed-tools: Read\n",
    f"{PLAIN}name: a\n",
    f"{PLAIN}1: 2\n",
    f"{PLAIN}: x\n",
    f"{PLAIN}...\nx: y\n",
    "name: &x a\ndescription: b\n",
    "name: !!str a\ndescription: b\n",
    "name: [a]\ndescription: b\n",
    "name: a\ndescription: b: c\n",
    "name: a\ndescription: 'b: c'\n",
    "name: a\ndescription: b\n  c\n",
    "name: a\ndescription: |\n  b\n  c\n",
    "name: a\ndescription: >-\n  b\n",
    "name: a\ndescription: ''\n",
    "name: a\ndescription: ' '\n",
    "name: a\ndescription: null\n",
    "name: a\ndescription: ~\n",
    "name: a\ndescription: 1\n",
    "name: a\ndescription: 2020-01-01\n",
    "name: a\ndescription: yes\n",
    "name: a\ndescription:\tb\n",
    "name: a\ndescription: @b\n",
    "name: a\ndescription: `b`\n",
    "name: a\ndescription: {{b}}\n",
    'name: a\ndescription: "\\ud800"\n',
    'name: a\ndescription: "\\U00110000"\n',
    "name: a\ndescription: \x07\n",
    "name: a\ndescription: \ufeffb\n",
    f"name: a\ndescription: {'b' * 1024}\n",
    f"name: a\ndescription: {'b' * 1025}\n",
    "name: A\ndescription: b\n",
    "name: b\ndescription: b\n",
    "name: ' a '\ndescription: b\n",
    "name: a-\ndescription: b\n",
    "name: a.b\ndescription: b\n",
    "'name': a\n\"description\": b\n",
    "? name\n: a\n? description\n: b\n",
    "name : a\ndescription : b\n",
    "  name: a\n  description: b\n",
    "  name: a\n description: b\n",
    "%YAML 1.1\n",
    "name: a\r\ndescription: b\r\n",
]


@pytest.mark.parametrize("head", ODD)
def test_odd_frontmatter_is_judged_as_the_reference_judges_it(folder: Path, head: str) -> None:
    assert refused(fenced(head)) == reference_refuses(folder, fenced(head))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "---\n",
        "---\nname: a\n",
        "name: a\n---\n",
        "\ufeff---\nname: a\ndescription: b\n---\n",
    ],
)
def test_a_file_without_frontmatter_is_refused_as_by_the_reference(folder: Path, text: str) -> None:
    assert refused(text)
    assert reference_refuses(folder, text)


@pytest.mark.parametrize(
    "name",
    ["a", "a-b", "a--b", "-a", "a-", "A", "a_b", "a b", "a.b", "名前", "ä", "1", "a" * 64, "a" * 65,
     "ﬁle", "é", "e\u0301", "ß", "ǆ", "①"],
)  # fmt: skip
def test_names_are_judged_as_the_reference_judges_them(tmp_path: Path, name: str) -> None:
    text = fenced(f"name: {name}\ndescription: b\n")
    (tmp_path / name).mkdir()
    assert refused(text, name) == reference_refuses(tmp_path / name, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\nname: a\ndescription: b --- c\nallowed-tools: Read\n---\n", "the bounds are lost"),
        ("---name: a\ndescription: b\n---\n", "the first fence is no line"),
        ("---\nname: a\ndescription: b\n---and this\n", "the second fence is no line"),
        ("---\nname: a\ndescription: b\n<<:\n  x: y\n---\n", "a merge smuggles a field in"),
    ],
)
def test_we_are_stricter_where_the_reference_loses_what_was_declared(
    folder: Path, text: str, why: str
) -> None:
    assert refused(text), why
    assert not reference_refuses(folder, text)


def test_a_lone_equals_sign_is_text_for_us_and_nothing_for_the_reference(folder: Path) -> None:
    text = fenced("name: a\ndescription: =\n")
    assert not refused(text)
    assert reference_refuses(folder, text)


WORDS = st.sampled_from(
    [
        "a",
        "b",
        "",
        "~",
        "1",
        "é",
        "名",
        "x: y",
        "x:y",
        "'q'",
        '"q"',
        "'",
        "#",
        " # c",
        "- x",
        "|",
        ">",
        "*x",
        "&x",
        "!x",
        "[x]",
        "{x}",
        "@",
        "%",
        "`x`",
        "\\",
        "?",
        ": ",
        "\t",
        "x" * 501,
        "\u2028",
    ]
)
FIELDS = st.sampled_from(
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools", "other", "1"]
)
LINES = st.one_of(
    st.builds("{}: {}\n".format, FIELDS, WORDS),
    st.builds("{}:\n  - {}\n".format, FIELDS, WORDS),
    st.builds("{}:\n  k: {}\n".format, FIELDS, WORDS),
    st.builds("{}:\n    k:\n      l: {}\n".format, FIELDS, WORDS),
    st.builds("{}: |\n  {}\n".format, FIELDS, WORDS),
    st.builds("  {}\n".format, WORDS),
    st.builds("{}\n".format, WORDS),
)


@settings(max_examples=400, deadline=None)
@given(start=st.sampled_from([PLAIN, "", "name: a\n"]), lines=st.lists(LINES, max_size=4))
def test_any_frontmatter_is_judged_as_the_reference_judges_it(
    folder: Path, start: str, lines: list[str]
) -> None:
    text = fenced(start + "".join(lines))
    assert refused(text) == reference_refuses(folder, text)


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200))
def test_reading_never_fails_whatever_the_text_is(text: str) -> None:
    for each in (
        text,
        f"---\n{text}\n---\n",
        fenced(f"{PLAIN}metadata:\n  hermes-paths: {text}\n"),
    ):
        assert isinstance(parse(each).broken, str)


def test_a_lower_case_file_name_is_taken_as_the_reference_takes_it(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.mkdir()
    (place / "skill.md").write_text(skill_text("a"))
    assert skills_ref.validate(place) == []
    assert problems(place) == []


def test_what_is_ours_is_read_from_the_metadata() -> None:
    skill = parse(
        fenced(
            "name: a\ndescription: b\nmetadata:\n  author: ann\n  hermes-category: web  servers\n"
            "  hermes-tags: x y\n  hermes-platforms: linux macos\n"
            "  hermes-requires-tools: Bash web_search\n  hermes-fallback-for-tools: browser\n"
            "  hermes-paths: /srv/** '/my data/*'\n  hermes-hosts: '*.example.org'\n"
            "allowed-tools: Read, Grep Glob Bash(git:*) terminal(kubectl get *) mcp_x\n"
        )
    )
    assert skill.problems == ()
    assert skill.facts.category == "web servers"
    assert skill.facts.tags == ("x", "y")
    assert skill.facts.platforms == ("linux", "darwin")
    assert skill.facts.requires == ("terminal", "web_search")
    assert skill.facts.fallback_for == ("browser",)
    assert skill.bounds == SkillLimits(
        "a",
        ("read_file", "search_files", "terminal(git:*)", "terminal(kubectl get *)", "mcp_x"),
        ("/srv/**", "/my data/*"),
        ("*.example.org",),
    )


def test_a_skill_that_declares_nothing_is_not_bounded() -> None:
    assert parse(fenced(PLAIN)).bounds is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("allowed-tools: terminal(git\n", "allowed-tools cannot be read: '('"),
        ("allowed-tools:\n  a: b\n", "allowed-tools is not text"),
        ('metadata:\n  hermes-paths: "\'/srv"\n', "hermes-paths cannot be read"),
        ("metadata:\n  hermes-hosts:\n    a: b\n", "hermes-hosts is not text"),
        (
            "metadata:\n  hermes-parameters: '1x: y'\n",
            "hermes-parameters: '1x: y' is not a parameter",
        ),
        ("metadata:\n  hermes-parameters: |\n    a: x\n    a: y\n", "'a' appears twice"),
    ],
)
def test_bounds_and_parameters_that_cannot_be_read_are_errors(more: str, said: str) -> None:
    skill = parse(fenced(PLAIN + more), "a")
    assert said in skill.broken


@pytest.mark.parametrize(
    ("more", "tools", "platform", "fits"),
    [
        ("", "", "linux", True),
        ("hermes-platforms: linux", "", "linux", True),
        ("hermes-platforms: linux", "", "darwin", False),
        ("hermes-requires-tools: x y", "x y z", "linux", True),
        ("hermes-requires-tools: x y", "x z", "linux", False),
        ("hermes-fallback-for-tools: x y", "x", "linux", True),
        ("hermes-fallback-for-tools: x y", "x y", "linux", False),
    ],
)
def test_conditions_say_where_a_skill_is_offered(
    more: str, tools: str, platform: str, fits: bool
) -> None:
    skill = parse(fenced(f"{PLAIN}metadata:\n  a: b\n  {more}\n"))
    assert skill.facts.fits(frozenset(tools.split()), platform) is fits


def messages(found: "list[SkillProblem] | tuple[SkillProblem, ...]", severity: str) -> str:
    return "\n".join(each.message for each in found if each.severity == severity)


def test_a_skill_that_is_well_has_no_problems(tmp_path: Path) -> None:
    place = put_skill(tmp_path, "a", scripts__x_sh="echo", references__more_md="more")
    assert problems(place) == []
    assert skills_ref.validate(place) == []


def test_everything_doubtful_about_a_folder_is_warned_of(tmp_path: Path) -> None:
    body = "\n".join(
        ["---", "name: a", "description: Mends things", "metadata:", "  hermes-categori: x",
         "  hermes-parameters: 'x: y'", "---", "See [more](references/gone.md), {{z}} and",
         "[a site](https://example.org), [here](#there) and `scripts/gone.sh`.", *["x"] * 500]
    )  # fmt: skip
    place = put_skill(tmp_path, "a", body, notes_txt="x", assets__big_txt="x" * 1_000_001)
    (place / "assets" / "picture.png").write_bytes(b"\x89PNG\0\xff")
    (place / "link").symlink_to("/etc/hostname")
    found = list(problems(place))
    assert messages(found, "error") == ""
    warned = messages(found, "warning")
    for said in (
        "hermes-categori is not a known", "no section 'When to Use'", "no section 'Verification'",
        "does not say when", "more than 500 lines", "'references/gone.md'", "'scripts/gone.sh'",
        "{{z}} is not a parameter", "'notes.txt' is not where agents look",
        "'assets/big.txt' is too large", "'assets/picture.png' is not text", "'link' is a link",
    ):  # fmt: skip
        assert said in warned, said
    assert "example.org" not in warned
    assert skills_ref.validate(place) == []


def test_what_cannot_be_used_is_an_error_and_comes_first(tmp_path: Path) -> None:
    assert messages(list(problems(tmp_path / "none")), "error").endswith("is not a folder")
    (tmp_path / "empty").mkdir()
    assert messages(list(problems(tmp_path / "empty")), "error") == "there is no SKILL.md"
    place = put_skill(tmp_path, "a", "---\nname: b\n---\n", runbook_yaml="steps: []\n")
    found = list(problems(place))
    assert [each.severity for each in found] == sorted(each.severity for each in found)
    said = messages(found, "error")
    assert "differs from its folder's" in said
    assert "no description" in said
    assert "runbook.yaml" in said
    (place / "SKILL.md").write_bytes(b"---\nname: a\ndescription: \xff\n---\n")
    assert messages(list(problems(place)), "error") == "SKILL.md is not UTF-8 text"


def test_a_misspelt_tool_is_warned_of_with_the_one_that_was_meant() -> None:
    head = "name: a\ndescription: b\nallowed-tools: terminall(git:*) github__issue read_file\n"
    found = parse(f"---\n{head}metadata:\n  hermes-requires-tools: web_serch\n---\nText\n").problems
    assert [(one.message, one.hint) for one in found] == [
        ("no tool is called 'terminall'", "did you mean terminal?"),
        ("no tool is called 'web_serch'", "did you mean web_search?"),
    ]
    assert sorted(BUILT_IN) == sorted(one.name for one in builtin.facts())


def test_a_misspelt_channel_is_warned_of_because_it_would_hide_the_skill() -> None:
    limits = "metadata:\n  hermes-channels: telegrm slack:C12 cli pager"
    found = parse(f"---\nname: deploy\ndescription: How to deploy.\n{limits}\n---\nRun it.\n")
    said = [(one.message, one.hint) for one in found.problems if "channel" in one.message]
    assert said == [("no channel is called 'telegrm'", "did you mean telegram?")]


def test_the_places_of_a_skill_are_the_channels_that_there_are() -> None:
    channels = {path.parent.name for path in CHANNELS.glob("*/manifest.yaml")}
    assert {*PLACES} == {"cli", "library", "job", "incident", *channels}


def test_bounds_that_the_gate_cannot_read_are_an_error() -> None:
    text = skill_text("a", allowed_tools="terminal()")
    (found,) = problems({"SKILL.md": text.encode()}, "a")
    assert found.severity == "error"
    assert "terminal()" in found.message


def test_files_can_be_checked_before_they_are_written() -> None:
    assert problems({"SKILL.md": skill_text("a").encode()}, "a") == []
    assert (
        "differs from its folder's"
        in problems({"SKILL.md": skill_text("a").encode()}, "b")[0].message
    )


def test_a_section_ends_at_the_next_heading_and_code_has_none() -> None:
    body = (
        "# T\n\n```\n## When to Use\nno\n```\n\n## When To Use It\n\nyes\n\n```\n# c\n```\n## B\nx"
    )
    assert section(body, "When to Use") == "yes\n\n```\n# c\n```"
    assert section(body, "Pitfalls") == ""
