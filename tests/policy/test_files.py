from textwrap import dedent

import pytest

from hermes_agent.core.effects import Actor, ApprovalRequirement
from hermes_agent.policy.files import parse
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.files.schema import Rewrite, RuleMatch, Times
from hermes_agent.policy.patterns import expressions, hosts
from tests.support.policies import file_of, problems_of, rules_of
from tests.support.source import ROOT


def test_a_whole_file_is_read() -> None:
    text = """
    version: 1
    name: Cluster
    description: rules for the cluster
    profile: cluster
    extends: operate
    rules:
      - id: restarts
        match:
          program: kubectl
          verb: [rollout restart, "scale*"]
          no_via: sudo
          time: {hours: "22:00-06:00", days: [sat, sun], zone: Europe/Berlin}
        when: effect.terminal == "prod"
        then: {ask: {by: [alice, "#ops"], count: 2, within: 10m}}
        exact: true
        reason: it restarts something
    tests:
      - run: kubectl rollout restart deploy/x
        expect: ask
        rule: restarts
        as: {actor: job/nightly, source: cron}
        at: "2026-03-01T23:30:00+01:00"
        files: {here: /etc}
    """
    file, problems = read_file("cluster", "cluster.yaml", dedent(text))
    assert problems == ()
    assert (file.title, file.profile, file.extends) == ("Cluster", "cluster", "operate")
    (rule,) = file.rules
    assert rule.name == "cluster/restarts"
    assert rule.where == "cluster.yaml:8"
    assert rule.match == RuleMatch(
        program=("kubectl",),
        verb=("rollout restart", "scale*"),
        no_via=("sudo",),
        time=Times(((1320, 360),), (5, 6), "Europe/Berlin"),
    )
    assert rule.consent == ApprovalRequirement(("alice", "#ops"), 2, 600.0)
    assert rule.exact
    (case,) = file.tests
    assert case.actor == Actor("job", "nightly", "cron")
    assert case.time == 1772404200.0
    assert case.files == {"here": "/etc"}


def test_a_rewrite_is_read() -> None:
    (rule,) = rules_of(
        """
        - id: dry
          match: {program: kubectl, verb: delete}
          then: {rewrite: {add: ["--dry-run=client"], remove: ["--force*"], set: {timeout: 30}}}
        """
    )
    assert rule.action == "rewrite"
    assert rule.rewrite == Rewrite(("--dry-run=client",), ("--force*",), {"timeout": 30})


def test_words_that_yaml_takes_for_something_else_stay_words() -> None:
    (rule,) = rules_of("- {id: x, match: {program: [yes, no, true, 1.0], verb: null_}, then: ask}")
    assert rule.match.program == ("yes", "no", "true", "1.0")


@pytest.mark.parametrize(
    ("rule", "at", "message", "hint"),
    [
        ("- {id: a, match: {progam: rm}, then: deny}", "progam", "no key 'progam'", "'program'"),
        ("- {id: a, match: {kind: prog}, then: deny}", "prog}", "cannot be 'prog'", "'program'"),
        ("- {id: a, match: {tool: x}, then: alow}", "alow", "cannot be 'alow'", "'allow'"),
        ("- {id: a, match: {tool: x}, then: rewrite}", "rewrite", "cannot be 'rewrite'", "add"),
        ("- {id: a, match: {tool: x}}", "{id", "needs a then", "allow"),
        ("- {match: {tool: x}, then: ask}", "{match", "needs an id", ""),
        ("- {id: a b, match: {tool: x}, then: ask}", "a b", "spaces", ""),
        ("- {id: a, match: {}, then: allow}", "{id", "must say what it allows", ""),
        ("- {id: a, then: allow}", "{id", "must say what it allows", ""),
        ("- {id: a, match: {unknown: maybe}, then: ask}", "maybe", "true or false", ""),
        ("- {id: a, match: {tool: []}, then: ask}", "[]", "empty list", ""),
        ("- {id: a, match: {tool: ~}, then: ask}", "~", "must be text", ""),
        ("- {id: a, match: {inside: house}, then: ask}", "house", "cannot be 'house'", ""),
        ("- {id: a, match: {path: '{wrkspace}/x'}, then: ask}", "'{wrk", "placeholder", ""),
        ("- {id: a, match: {path: 'x{home}/x'}, then: ask}", "'x{", "at the beginning", ""),
        ("- {id: a, match: {path: a/../b}, then: ask}", "a/..", "cannot contain ..", ""),
        ("- {id: a, match: {path: a*b*c*d*e}, then: ask}", "a*b", "more than", ""),
        ("- {id: a, match: {path: a/**/b/**/c/**/d}, then: ask}", "a/**", "more than", ""),
        ("- {id: a, match: {path: '[z-a]'}, then: ask}", "'[z", "is invalid", ""),
        ("- {id: a, match: {host: 'http://x/y'}, then: ask}", "'http", "only the host", ""),
        ("- {id: a, match: {time: {hours: 9-5}}, then: ask}", "9-5", "cannot be '9-5'", ""),
        ("- {id: a, match: {time: {zone: Moon, days: mon}}, then: ask}", "Moon", "zone", ""),
        ("- {id: a, match: {time: {zone: UTC}}, then: ask}", "{zone", "hours or days", ""),
        ("- {id: a, match: {input: x}, then: ask}", "x}", "mapping of arguments", ""),
        ("- {id: a, match: {tool: x}, then: {ask: {count: 0}}}", "0", "at least 1", ""),
        ("- {id: a, match: {tool: x}, then: {ask: {within: soon}}}", "soon", "such as 90s", ""),
        ("- {id: a, match: {tool: x}, then: {rewrite: {}}}", "{}", "what to change", ""),
        ("- {id: a, match: {tool: x}, then: {}}", "{}", "exactly one", ""),
        ("- {id: a, match: {tool: x}, then: ask, secrets: [X]}", "[X", "then: allow", ""),
        ("- {id: a, match: {tool: x}, then: allow, exact: true}", "true", "then: ask", ""),
        ("- {id: a, match: {tool: x}, when: 'effect.tol == 1', then: ask}", "'eff", "tol", ""),
        ("- {id: a, match: {tool: x}, when: act.program, then: ask}", "act.", "string", ""),
        ("- {id: a, match: {tool: x}, when: 1 +, then: ask}", "1 +", "Syntax", ""),
        ("- just a text", "just", "must be a mapping", ""),
        ("- {id: a, match: {program: rm, flag: -rf}, then: deny}", "-rf", "separate", "-r, -f"),
        ("- {id: a, match: {flag: -rf}, then: deny}", "-rf", "separate", "-r, -f"),
        ("- {id: a, match: {flag: rf}, then: deny}", "rf", "dash", "-r, -f"),
        ("- {id: a, match: {no_flag: force}, then: deny}", "force", "dash", "--force"),
        ("- {id: a, match: {flag: --x=y}, then: deny}", "--x", "no value", 'option: "--x=y"'),
        ("- {id: a, match: {option: --x}, then: deny}", "--x", "NAME=VALUE", "--namespace="),
        ("- {id: a, match: {option: x=y}, then: deny}", "x=y", "NAME=VALUE", ""),
        ("- {id: a, match: {program: git push}, then: deny}", "git", "one word", "verb: push"),
        ("- {id: a, match: {program: /usr/bin/rm}, then: deny}", "/usr", "matches", "write rm"),
        ("- {id: a, match: {program: python3.11}, then: ask}", "py", "never matches", "python3"),
        ("- {id: a, match: {path: $HOME/x}, then: ask}", "$HOME", "variables", "{home}"),
        ("- {id: a, match: {path: 'x/{a,b}'}, then: ask}", "'x/", "braces", "a list"),
        ("- {id: a, match: {path: logs/}, then: ask}", "logs/", "never matches", "logs/**"),
        ("- {id: a, match: {time: {hours: '9:00-09:00'}}, then: ask}", "'9", "cannot be", ""),
        ("- {id: a, match: {time: {hours: '09:00-09:00'}}, then: ask}", "'09", "be '09", "24:00"),
        ("- {id: a, match: {time: {hours: '09:00-24:30'}}, then: ask}", "'09", "be '09", "24:00"),
        ("- {id: a, match: {time: {days: mon-fri}}, then: ask}", "mon", "'mon-fri'", "a list"),
        ("- {id: a, match: {time: {days: mnday}}, then: ask}", "mnday", "'mnday'", "available"),
        ("- {id: a, match: {tool: terminal}, then: {rewrite: {set: {command: ls}}}}", "{rew",
         "rules check", "add and remove"),
        ("- {id: a, match: {path: /x}, then: {rewrite: {add: [-x]}}}", "{rew", "no program",
         "program"),
        ("- {id: a, match: {tool: x}, then: {ask: {by: [a, a], count: 2}}}", "{ask", "names 1",
         "lower count"),
        ("- {id: a, match: {capability: netwrk}, then: ask}", "netw", "capability", "'network'"),
        ("- {id: a, match: {place: docker}, then: ask}", "docker", "kind of", "container"),
        ("- {id: a, match: {actor: jobs/x}, then: ask}", "jobs", "no such actor", "'job'"),
        ("- {id: a, match: {host: privat}, then: ask}", "privat", "host name", "'private'"),
        ("- {id: a, match: {host: 'a.org:443'}, then: ask}", "'a.org", "port", "only the host"),
        ("- {id: a, match: {tool: x}, then: allow, secrets: a-b}", "a-b", "variable", "GITHUB"),
        ("- {id: a, match: {flag: -x, no_flag: [-x, -y]}, then: ask}", "-x", "same", "remove"),
        ("- {id: a, match: {via: ssh, no_via: ssh}, then: ask}", "ssh", "same", "remove"),
        ("- {id: a, match: {kind: [program, unknown]}, then: allow}", "[pro", "only with",
         "unknown: true"),
        ("- {id: a, match: {access: execute}, then: ask}", "exec", "'execute'",
         "read, write, delete"),
        ("- {id: a, match: {tool: x}, when: 'act.kind == \"x\" and true', then: ask}", "'act",
         "Syntax", "&& for and"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_column_and_a_hint(
    rule: str, at: str, message: str, hint: str
) -> None:
    problem = problems_of(file_of(rule))[0]
    assert (problem.line, problem.column) == (3, rule.index(at) + 3)
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "empty"),
        ("# nothing\n", 1, "empty"),
        ("rules: []", 1, "version"),
        ("version: 2", 1, "version"),
        ("version: 1\nrules: {}", 2, "must be a list"),
        ("version: 1\nrulez: []", 2, "no key 'rulez'"),
        ("version: 1\nextends: careful", 2, "only a profile"),
        ("version: 1\nversion: 1", 2, "given twice"),
        ("version: 1\nname: &x a\ndescription: *x", 2, "anchors"),
        ("version: 1\n---\nversion: 1", 2, "second document"),
        ("version: 1\nname: !!python/name:os.system x", 2, "tag"),
        ("version: 1\nrules: [", 3, "not YAML"),
        ("version: 1\nname: " + "[" * 100_000, 2, "deep"),
        ("version: 1\ntests:\n  - {expect: allow}", 3, "either run or call"),
        ("version: 1\ntests:\n  - {run: ls}", 3, "needs an expect"),
        ("version: 1\ntests:\n  - {run: ls, expect: allow, as: {actor: cat}}", 3, "'cat'"),
        ("version: 1\ntests:\n  - {run: ls, expect: allow, at: noon}", 3, "noon"),
        ("version: 1\ntests:\n  - {call: x, input: [1], expect: allow}", 3, "mapping"),
        ("x" * 1_000_001, 1, "larger"),
        ("a: \x00", 1, "not YAML"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole_says_so(text: str, line: int, message: str) -> None:
    problem = problems_of(text)[0]
    assert problem.line == line
    assert message in problem.message


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    text = file_of(
        """
        - {id: a, match: {progam: x}, then: deny}
        - {id: a, match: {verb: x}, then: dney}
        """
    )
    assert [problem.line for problem in problems_of(text)] == [3, 4, 4]


def test_a_pattern_without_quotes_gets_the_hint_to_quote_it() -> None:
    for pattern in ("**/.env", "{workspace}/x"):
        problem = problems_of(f"version: 1\nrules:\n  - match:\n      path: {pattern}\n")[0]
        assert "quote" in problem.hint


@pytest.mark.parametrize(
    "match",
    [
        "{program: find, flag: -exec}",
        "{program: openssl, flag: -text}",
        "{program: ps, flag: e}",
        "{program: somebodys, flag: -long}",
        "{flag: [-r, --force, '--fo*', '-[rf]', '*']}",
        "{program: [./deploy.sh, '*/rm', python3, my.tool]}",
        "{path: [/, '/tmp/[$]x', '/tmp/[{]a,b}', '{home}', '{session}/x']}",
        "{host: [private, localhost, '10.0.0.0/8', '::1', '*.svc', web]}",
        "{actor: ['*', job, job/nightly, '[ju]*/x']}",
        "{capability: net*, place: [kubernetes, '*']}",
    ],
)
def test_what_can_fit_is_in_order(match: str) -> None:
    assert rules_of(f"- {{id: a, match: {match}, then: deny}}")


def test_a_tab_gets_the_hint_to_write_spaces() -> None:
    for text in ("version: 1\nrules:\n\t- id: a\n", "version: 1\nrules:\n  - id: a\n\t- id: b\n"):
        assert "tabs" in problems_of(text)[0].hint


def test_the_page_names_every_key_there_is() -> None:
    page = (ROOT / "docs" / "reference" / "policies.md").read_text()
    keys = {
        *RuleMatch.__struct_fields__,
        *parse._CASE,
        *parse._RULE,
        *parse._HEADER,
        *expressions.NAMES,
    }
    assert {key for key in keys if f"`{key}`" not in page and f"{key}:" not in page} == set()
    assert [word for word in hosts.WORDS if f"`{word}`" not in page] == []
