"""What active skills declare, over rules that would allow everything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_agent.core.effects import Verdict
from hermes_agent.core.skills import SkillLimits
from hermes_agent.policy.skill_limits import SERVING, trouble
from tests.support.policies import effect_of, judge

EVERYTHING = """
- {id: known, match: {tool: "*"}, then: allow}
- {id: unknown, match: {tool: "*", kind: [call, program, path, host, unknown], unknown: true}, then: allow}
"""  # noqa: E501


def said(
    bounds: SkillLimits | tuple[SkillLimits, ...], run: str | None = None, **facts: Any
) -> Verdict:
    given = bounds if isinstance(bounds, tuple) else (bounds,)
    links = facts.pop("links", {})
    return judge(EVERYTHING, effect_of(run, bounds=given, **facts), links=links).verdict


def allowed(
    bounds: SkillLimits | tuple[SkillLimits, ...], run: str | None = None, **facts: Any
) -> bool:
    verdict = said(bounds, run, **facts)
    assert verdict.action in ("allow", "deny")
    return verdict.action == "allow"


def tools(*names: str) -> SkillLimits:
    return SkillLimits("s", tools=names)


def paths(*globs: str, tools: tuple[str, ...] = ()) -> SkillLimits:
    return SkillLimits("s", tools=tools, paths=globs)


def hosts(*globs: str, tools: tuple[str, ...] = ()) -> SkillLimits:
    return SkillLimits("s", tools=tools, hosts=globs)


def reading(path: str, **facts: Any) -> dict[str, Any]:
    return {"tool": "read_file", "input": {"path": path}, "paths": (("read", path),), **facts}


@pytest.mark.parametrize(
    "run", ["rm -rf /", "curl $X", "python3 -c 'x'", "sudo foo", "PATH=x ls", "cat /etc/x"]
)
def test_what_a_skill_does_not_declare_it_does_not_bound(run: str) -> None:
    assert allowed(SkillLimits("s"), run)
    assert allowed((), run)


def test_a_refusal_says_which_skill_refuses_what_and_what_it_declares() -> None:
    verdict = said(SkillLimits("deploy", tools=("terminal(git:*)", "read_file")), "ls; rm x")
    assert verdict.rule == "skill/deploy"
    assert verdict.reason == (
        "the skill deploy does not allow `ls`; it declares the tools terminal(git:*), read_file"
    )
    elsewhere = said(
        SkillLimits("docs", paths=("docs/**",)), **reading("docs/a"), links={"docs/a": "/b"}
    )
    assert elsewhere.reason == (
        "the skill docs does not allow reading 'docs/a' (resolves to /b); "
        "it declares the paths docs/**"
    )
    far = said(SkillLimits("web", hosts=("a.org",)), "curl https://b.org/x")
    assert far.reason == "the skill web does not allow reaching b.org; it declares the hosts a.org"


@pytest.mark.parametrize(
    ("names", "tool", "expected"),
    [
        (("read_file",), "read_file", True),
        (("read_file",), "write_file", False),
        (("*_file",), "write_file", True),
        (("browser*",), "browser_act", True),
        (("browser",), "browser_act", False),
        (("mcp_*",), "execute_code", False),
        (("execute_code",), "execute_code", True),
        (("terminal(git:*)",), "read_file", False),
        (("read_file(src/**)",), "read_file", False),
        (("use_tool",), "delegate", False),
    ],
)
def test_tools_are_named_by_globs(names: tuple[str, ...], tool: str, expected: bool) -> None:
    assert allowed(tools(*names), tool=tool) == expected


@pytest.mark.parametrize("tool", sorted(SERVING))
def test_tools_that_serve_the_conversation_are_never_bounded(tool: str) -> None:
    assert allowed(tools("read_file"), tool=tool)
    assert allowed(tools("("), tool=tool)
    assert not allowed(tools("read_file"), tool=tool, origin="mcp")


COMMANDS = [
    # any words of a program
    ("git:*", "git", True),
    ("git:*", "git push --force", True),
    ("git:*", "/usr/bin/git status", True),
    ("git:*", "gitk", False),
    ("git:*", "git-evil", False),
    ("git:*", "./git status", False),
    ("git:*", "/tmp/git status", False),
    ("/usr/bin/git:*", "git status", True),
    ("git status:*", "git status -s", True),
    ("git status:*", "git stash", False),
    # words one by one
    ("git status", "git status", True),
    ("git status", "git status -s", False),
    ("git status", "git", False),
    ("kubectl get *", "kubectl get pods -n x", True),
    ("kubectl get *", "kubectl get", True),
    ("kubectl get *", "kubectl delete pods", False),
    ("kubectl get *", "kubectl --context prod get pods", False),
    ("git log -[0-9]", "git log -5", True),
    ("git log -[0-9]", "git log --all", False),
    ("git commit -m 'a b'", "git commit -m 'a b'", True),
    ("git commit -m 'a b'", "git commit -m a b", False),
    ("git checkout v*", "git checkout v1", True),
    ("git checkout v*", "git checkout v1 -f", False),
    ("./deploy.sh:*", "./deploy.sh prod", True),
    ("./deploy.sh:*", "deploy.sh prod", False),
    # every program of a command
    ("git:*", "git status && git log", True),
    ("git:*", "git status && rm x", False),
    ("git:*", "git log | head", False),
    ("git:*", "git log; ls", False),
    ("git:*", "git log & ls", False),
    ("git:*", "git log $(whoami)", False),
    ("git:*", "git log `whoami`", False),
    ("git:*", "git log <(whoami)", False),
    ("git:*", "if git status; then rm x; fi", False),
    ("git:*", "A=$(rm x)", False),
    ("git:*", "A=1", True),
    ("git:*", "", True),
    # what runs through others
    ("git:*", "sh -c 'git status'", True),
    ("git:*", "sh -c 'rm x'", False),
    ("git:*", "bash -c \"sh -c 'rm x'\"", False),
    ("git:*", "env LANG=C git status", True),
    ("git:*", "env A=1 rm x", False),
    ("git:*", "timeout 5 git status", True),
    ("git:*", "ls | xargs rm", False),
    ("git:*", "echo x | xargs git rm", False),
    ("git:*", "eval 'rm x'", False),
    ("git:*", "exec rm x", False),
    ("git:*", "command rm x", False),
    ("git:*", "f() { rm x; }; f", False),
    ("git:*", "git() { rm x; }", False),
    ("git:*", "alias git=rm", False),
    ("git:*", "trap 'rm x' EXIT", False),
    ("git:*", "bash <<E\nrm x\nE", False),
    ("git:*", "bash x.sh", False),
    ("git:*", "source x.sh", False),
    ("find:*", "find . -name x", True),
    ("find:*", "find . -exec rm {} ;", False),
    ("git:*", "git -c core.pager='rm x' log", False),
    # what gives a program more than it has
    ("git:*", "sudo git status", False),
    ("git:*", "doas git status", False),
    ("sudo git:*", "sudo git status", True),
    ("sudo git:*", "git status", False),
    ("sudo git:*", "sudo rm x", False),
    ("sudo:*", "sudo rm x", True),
    ("git:*", "su -c 'git status'", False),
    ("git:*", "ssh web1 git status", False),
    ("ssh web1 *", "ssh web1 git status", True),
    ("ssh web1 *", "ssh web2 git status", False),
    ("ssh web1 uptime", "ssh web1 uptime", True),
    ("ssh web1 uptime", "ssh web1 uptime; rm x", False),
    ("ssh web1 uptime", "ssh web1 'rm x'", False),
    ("kubectl get *", "kubectl exec p -- rm x", False),
    ("ssh web1 *", "ssh web1 ls; chroot /x rm y", False),
    # what nobody can tell
    ("git:*", "PATH=/tmp:$PATH git status", False),
    ("git:*", "GIT_SSH_COMMAND=x git fetch", False),
    ("git:*", "$X status", False),
    ("git:*", "git log $X", False),
    ("git:*", "git log 'unbalanced", False),
    ("*", "python3 -c 'x'", False),
    ("git checkout v*", "git checkout v$X", False),
    ("git checkout v*", "git checkout v*", False),
    ("kubectl get * -n dev", "kubectl get $X -n dev", False),
    ("kubectl get * -n dev", "kubectl get pods -n dev", True),
]


@pytest.mark.parametrize(("pattern", "run", "expected"), COMMANDS)
def test_a_tool_that_runs_commands_can_be_held_to_some(
    pattern: str, run: str, expected: bool
) -> None:
    assert allowed(tools(f"terminal({pattern})"), run) == expected


def test_commands_that_are_named_are_allowed_together_and_the_tool_alone_allows_all() -> None:
    both = tools("terminal(git:*)", "terminal(ls)")
    assert allowed(both, "ls && git log")
    assert not allowed(both, "ls -l && git log")
    assert allowed(tools("terminal(git:*)", "terminal"), "rm x; python3 -c y")


PATHS = [
    (("docs/**",), "cat docs/a", True),
    (("docs/**",), "cat docs/sub/a", True),
    (("docs/**",), "cat src/a", False),
    (("docs/*",), "cat docs/sub/a", False),
    (("/etc/nginx/**",), "cat /etc/nginx/nginx.conf", True),
    (("/etc/nginx/**",), "cat /etc/passwd", False),
    (("~/notes/**",), "cat ~/notes/a", True),
    (("~/notes/**",), "cat ~/other/a", False),
    (("docs/**", "/tmp/x"), "cp docs/a /tmp/x", True),
    (("docs/**",), "cp docs/a /tmp/x", False),
    (("docs/**",), "cat docs/../src/a", False),
    (("docs/**",), "cat docs/*.md", True),
    (("docs/**",), "cat d*/a", False),
    (("docs/**",), "cat */a", False),
    (("docs/**",), "echo x > docs/a", True),
    (("docs/**",), "echo x > src/a", False),
    (("docs/**",), "echo x >> src/a", False),
    (("docs/**",), "cat < src/a", False),
    (("docs/**",), "cat > src/a <<E\nx\nE", False),
    (("docs/**",), "cat <<E\n$(cat src/a)\nE", False),
    (("docs/**",), "cd src && cat a", False),
    (("docs/**",), "cd docs && cat a", True),
    (("docs/**",), "cd docs && cat ../src/a", False),
    (("docs/**",), "sh -c 'rm src/a'", False),
    (("docs/**",), "env A=1 rm src/a", False),
    (("docs/**",), "sudo rm src/a", False),
    (("docs/**",), "ls docs | xargs rm", False),
    (("docs/**",), "find docs -exec rm {} ;", True),
    (("docs/**",), "find . -exec rm {} ;", False),
    (("docs/**",), "tee src/a", False),
    (("docs/**",), "cat $X", False),
    (("docs/**",), "cat $(ls)", False),
    (("docs/**",), "python3 -c 'x'", False),
    (("docs/**",), "python3 docs/x.py", False),
    (("docs/**",), "./docs/tool docs/a", False),
    (("docs/**",), "frobnicate docs/a", False),
    (("docs/**",), "make", False),
    (("docs/**",), "echo hello", True),
    (("docs/**",), "date; sleep 0; test -e docs/a", True),
    (("docs/**",), "systemctl status nginx", False),
    (("docs/**",), "curl -O https://a.org/x", False),
    (("docs/**",), "git status", False),
    (("docs/**",), "ls docs", True),
    (("docs/**",), "ls", False),
    (("docs/**",), "grep x docs/a", True),
    (("docs/**",), "grep -r x < docs/a", False),
    (("**",), "python3 -c 'x'", True),
    (("docs/**",), "ssh web1 cat docs/a", False),
]


@pytest.mark.parametrize(("globs", "run", "expected"), PATHS)
def test_every_path_lies_within_what_a_skill_declares(
    globs: tuple[str, ...], run: str, expected: bool
) -> None:
    assert allowed(paths(*globs), run) == expected


@pytest.mark.parametrize(
    ("path", "links", "expected"),
    [
        ("docs/a", {}, True),
        ("docs/a", {"docs/a": "/etc/shadow"}, False),
        ("docs/a", {"docs": "src"}, False),
        ("link", {"link": "docs/a"}, False),
        ("docs/link/../a", {"docs/link": "/etc/ssh"}, False),
        ("docs/a", {"/workspace": "/data/w"}, True),
        ("~other/x", {}, False),
        ("docs/a\0", {}, False),
    ],
)
def test_a_path_is_bounded_where_it_leads(path: str, links: dict[str, str], expected: bool) -> None:
    assert allowed(paths("docs/**"), **reading(path), links=links) == expected
    if "\0" not in path:
        assert allowed(paths("docs/**"), f"cat {path}", links=links) == expected


def test_a_program_that_nobody_can_see_into_is_allowed_where_the_skill_names_it() -> None:
    named = ("terminal(python3 docs/x.py *)", "terminal(make:*)", "terminal(git:*)")
    within = paths("docs/**", tools=named)
    assert allowed(within, "python3 docs/x.py --all")
    assert allowed(within, "make && git status")
    assert not allowed(within, "python3 docs/y.py")
    assert not allowed(within, "python3 docs/x.py --to /etc/passwd > src/a")
    assert not allowed(paths("docs/**", tools=("terminal(*)",)), "make")


def test_a_program_that_works_where_it_stands_must_stand_within() -> None:
    assert not allowed(paths("docs/**"), "grep -r x > docs/out")
    assert allowed(paths("docs/**"), "grep -r x; ls -l", folder="/workspace/docs")


def test_on_another_machine_relative_paths_and_homes_fit_nothing() -> None:
    assert not allowed(paths("~/x"), **reading("~/x", terminal_kind="ssh"))
    assert allowed(paths("docs/**"), **reading("docs/a", terminal_kind="ssh"))
    named = ("terminal(ssh web1 *)",)
    assert allowed(paths("/x/**", tools=named), "ssh web1 'cat /x/a; systemctl status x'")
    assert not allowed(paths("/x/**", tools=named), "ssh web1 cat /y/a")
    assert not allowed(paths("docs/**", tools=named), "ssh web1 cat docs/a")
    assert not allowed(paths("/x/**"), "ssh web1 cat /x/a")


HOSTS = [
    (("a.org",), "curl https://a.org/x", True),
    (("a.org",), "curl https://A.ORG./x", True),
    (("a.org",), "curl https://b.org/x", False),
    (("a.org",), "curl https://a.org.evil.net", False),
    (("a.org",), "curl https://a.org@evil.net/", False),
    (("*.a.org",), "curl https://x.a.org", True),
    (("*.a.org",), "curl https://a.org", False),
    (("10.0.0.0/8",), "curl http://10.1.2.3/", True),
    (("10.0.0.0/8",), "curl http://11.1.2.3/", False),
    (("a.org",), "curl https://a.org https://b.org", False),
    (("a.org",), "sh -c 'curl https://b.org'", False),
    (("a.org",), "env X=1 wget b.org", False),
    (("a.org",), "curl $X", False),
    (("a.org",), "curl -K file", False),
    (("a.org",), "exec 3<>/dev/tcp/b.org/80", False),
    (("a.org",), "git clone https://a.org/x", True),
    (("a.org",), "git clone https://b.org/x", False),
    (("a.org",), "git push", False),
    (("a.org",), "git push origin main", False),
    (("a.org",), "git status", False),
    (("a.org",), "pip install x", False),
    (("a.org",), "docker pull x", False),
    (("a.org",), "docker ps", False),
    (("a.org",), "systemctl -H root@b.org status", False),
    (("a.org",), "kubectl get pods", False),
    (("a.org",), "ssh a.org uptime", True),
    (("a.org",), "ssh b.org uptime", False),
    (("a.org",), "python3 -c 'x'", False),
    (("a.org",), "python3 x.py", False),
    (("a.org",), "frobnicate", False),
    (("a.org",), "ls; cat a", True),
    (("*",), "curl $X; python3 x.py", True),
]


@pytest.mark.parametrize(("patterns", "run", "expected"), HOSTS)
def test_every_host_fits_what_a_skill_declares(
    patterns: tuple[str, ...], run: str, expected: bool
) -> None:
    assert allowed(hosts(*patterns), run) == expected


def test_a_program_that_reaches_out_says_where_even_if_it_is_named() -> None:
    named = ("terminal(git:*)", "terminal(python3 x.py)", "terminal(docker:*)")
    assert not allowed(hosts("a.org", tools=named), "git push")
    assert not allowed(hosts("a.org", tools=named), "docker pull x")
    assert allowed(hosts("a.org", tools=named), "python3 x.py; git status; docker ps")


@pytest.mark.parametrize(("host", "expected"), [("a.org", True), ("b.org", False), ("", False)])
def test_a_connection_of_a_call_under_way_is_bounded(host: str, expected: bool) -> None:
    # A connection comes without the command that makes it.
    bounds = SkillLimits(
        "s", tools=("terminal(curl:*)", "web_fetch"), paths=("x",), hosts=("a.org",)
    )
    for tool in ("terminal", "web_fetch"):
        assert allowed(bounds, tool=tool, hosts=(host,)) == expected


def test_tools_of_servers_are_bounded_by_name_where_nobody_sees_what_they_touch() -> None:
    for bounds in (paths("docs/**"), hosts("a.org"), paths("docs/**", tools=("*",))):
        assert not allowed(bounds, tool="mcp_files_write", origin="mcp")
    assert allowed(paths("docs/**", tools=("mcp_files_*",)), tool="mcp_files_write", origin="mcp")
    send: dict[str, Any] = {
        "tool": "process",
        "input": {"action": "send", "id": "x", "text": "rm y"},
    }
    assert not allowed(paths("docs/**"), **send)
    assert allowed(paths("docs/**"), tool="process", input={"action": "list"})


def test_all_active_skills_must_allow_what_is_done() -> None:
    both = (
        SkillLimits("one", tools=("terminal", "read_file")),
        SkillLimits("two", paths=("docs/**",)),
    )
    assert allowed(both, "cat docs/a")
    assert said(both, "cat src/a").rule == "skill/two"
    assert said(both, **reading("docs/a") | {"tool": "web_fetch"}).rule == "skill/one"
    narrow = (SkillLimits("one", hosts=("a.org",)), SkillLimits("two", hosts=("b.org",)))
    assert not allowed(narrow, "curl https://a.org")
    assert not allowed(narrow, "curl https://b.org")


@pytest.mark.parametrize("corpus", ["evasions", "destructive"])
def test_no_known_evasion_leads_out_of_the_paths_of_a_skill(corpus: str) -> None:
    cases = yaml.safe_load((Path(__file__).parent / "cases" / f"{corpus}.yaml").read_text())
    runs = list(_runs(cases))
    assert len(runs) > 300
    got_out = [run for run in runs if allowed(paths("docs/**"), run)]
    assert got_out in ([], ["rm -rf\xa0build"])  # all of it is one option, which rm does not have


def _runs(cases: Any) -> Iterator[str]:
    for key, value in cases.items() if isinstance(cases, dict) else enumerate(cases):
        if key == "run":
            yield value
        elif isinstance(value, dict | list):
            yield from _runs(value)


@pytest.mark.parametrize(
    "bounds",
    [
        tools("terminal("), tools("terminal()"), tools("(git:*)"), tools("terminal(git 'x)"),
        tools("terminal(:*)"), tools(""), tools("a b"), tools("terminal(git) x"),
        paths("docs/[z-a]"), paths(""), paths("docs/"), paths("../x"), paths("$HOME/x"),
        paths("{a,b}/**"), paths("x{home}"), paths("a\0b"), paths("*a*b*c*d*/x"),
        hosts(""), hosts("https://a.org"), hosts("a.org/x"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_refuses_everything(bounds: SkillLimits) -> None:
    assert trouble(bounds)
    for run in ("ls", "git status", "cat docs/a", ""):
        verdict = said(bounds, run)
        assert (verdict.action, verdict.rule) == ("deny", "skill/s")
        assert verdict.reason.startswith("the skill s allows nothing: the ")
    assert not allowed(bounds, **reading("docs/a"))


def test_what_can_be_read_has_no_trouble() -> None:
    assert trouble(SkillLimits("s", ("terminal(git:*)", "x*"), ("a/**", "~/x"), ("*.a.org",))) == ""
