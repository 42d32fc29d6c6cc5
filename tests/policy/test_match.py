import pytest

from hermes_agent.core.effects import Actor, Operation, PathAccess
from hermes_agent.policy.match import MatchContext
from hermes_agent.policy.patterns.globs import Roots, WordGlobs, escape
from hermes_agent.policy.ruleset import RuleSet
from hermes_agent.policy.shell import read
from tests.support.policies import ALLOW_ALL_CALLS, action, effect_of, rules_of

ROOTS = Roots(
    {"workspace": ("/w", "/data/w"), "home": ("/home/u",), "hermes": ("/home/u/.hermes",)}, "s1"
)


def fits(rule: str, act: Operation, **facts: object) -> bool:
    (one,) = rules_of(f"- {{id: x, {rule}}}")
    effect = effect_of(**facts)
    return RuleSet([one]).decide(MatchContext(effect, ROOTS), act).by is not None


def program(name: str = "kubectl", **more: object) -> Operation:
    return Operation(kind="program", text=name, program=name, **more)  # type: ignore[arg-type]


def path(access: str, *real: str, named: str = "") -> Operation:
    place = PathAccess(access, "given", named or (real[0] if real else ""), real)  # type: ignore[arg-type]
    return Operation("path", "given", places=(place,))


KUBECTL = program(
    verb="rollout restart", arguments=("rollout", "restart", "deploy/x"), flags=("-n", "--force"),
    via=("sudo",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("program: kubectl", True),
        ("program: [helm, kube*]", True),
        ("program: helm", False),
        ("verb: rollout restart", True),
        ("verb: rollout", False),
        ("verb: rollout *", True),
        ("flag: [-f, --force]", True),
        ("flag: -f", False),
        ("no_flag: --dry-run", True),
        ("no_flag: --fo*", False),
        ("argument: deploy/*", True),
        ("argument: deploy", False),
        ("via: sudo", True),
        ("via: ssh", False),
        ("no_via: ssh", True),
        ("no_via: '*'", False),
        ("kind: program", True),
        ("kind: [path, host]", False),
        ("tool: terminal", True),
        ("tool: 'mcp_*'", False),
        ("program: kubectl, verb: get", False),
        ("access: write", False),
        ("host: '*'", False),
    ],
)
def test_a_rule_fits_a_program_by_its_parts(match: str, expected: bool) -> None:
    assert fits(f"match: {{{match}}}, then: ask", KUBECTL) == expected


@pytest.mark.parametrize(
    ("match", "facts", "expected"),
    [
        ("terminal: 'prod-*'", {"terminal": "prod-1"}, True),
        ("terminal: 'prod-*'", {"terminal": "staging"}, False),
        ("place: ssh", {"terminal_kind": "ssh"}, True),
        ("confined: true", {"terminal_kind": "sandbox"}, True),
        ("confined: true", {"terminal_kind": "kubernetes"}, False),
        ("confined: false", {"terminal_kind": "local"}, True),
        ("origin: mcp", {"origin": "mcp"}, True),
        ("origin: mcp", {}, False),
        ("capability: [network, secrets]", {"capabilities": ("process", "network")}, True),
        ("capability: network", {"capabilities": ("process",)}, False),
        ("actor: job", {"actor": Actor("job", "nightly")}, True),
        ("actor: job/night*", {"actor": Actor("job", "nightly")}, True),
        ("actor: job", {"actor": Actor("user", "job")}, False),
        ("session: [job, agent]", {"actor": Actor("agent")}, True),
        ("session: job", {"actor": Actor("user")}, False),
        ("source: telegram", {"actor": Actor(source="telegram")}, True),
        ("source: telegram", {"actor": Actor(source="cli")}, False),
        ("input: {action: [list, follow]}", {"input": {"action": "list"}}, True),
        ("input: {action: [list, follow]}", {"input": {"action": "stop"}}, False),
        ("input: {action: list}", {"input": {}}, False),
        ("input: {count: '3'}", {"input": {"count": 3}}, True),
    ],
)
def test_a_rule_fits_by_who_asks_and_where(
    match: str, facts: dict[str, object], expected: bool
) -> None:
    assert fits(f"match: {{{match}}}, then: ask", KUBECTL, **facts) == expected


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("/etc/passwd", ["/etc/passwd"], ["/etc/passwd2", "/x/etc/passwd"]),
        ("/etc/*", ["/etc/passwd"], ["/etc", "/etc/ssh/x"]),
        ("/etc/**", ["/etc", "/etc/passwd", "/etc/ssh/x"], ["/etcetera", "/x/etc"]),
        ("/**", ["/", "/a/b"], []),
        ("**", ["/", "/a"], []),
        ("**/.env", ["/.env", "/a/b/.env"], ["/a.env", "/.env/x"]),
        ("**/.ssh/**", ["/a/.ssh", "/a/.ssh/id"], ["/a/ssh"]),
        ("/a/**/z", ["/a/z", "/a/b/z", "/a/b/c/z"], ["/az", "/a/zz"]),
        ("{workspace}/**", ["/w", "/w/a", "/data/w/a"], ["/ww", "/data"]),
        ("{workspace}", ["/w", "/data/w"], ["/w/a"]),
        ("src/*.py", ["/w/src/a.py", "/data/w/src/a.py"], ["/src/a.py", "/w/src/a/b.py"]),
        ("./src", ["/w/src"], ["/src"]),
        (".", ["/w"], ["/w/a"]),
        ("~/.ssh/**", ["/home/u/.ssh/x"], ["/home/v/.ssh/x"]),
        ("{hermes}/results/{session}/**", ["/home/u/.hermes/results/s1/a"],
         ["/home/u/.hermes/results/s2/a"]),
        ("/a/?", ["/a/b"], ["/a/bc", "/a//"]),
        ("/a/[ab]c", ["/a/ac"], ["/a/cc"]),
        ("/a/[!ab]c", ["/a/cc"], ["/a/ac", "/a//c"]),
        ("/a/[*]", ["/a/*"], ["/a/b"]),
        ("/a/[[]b", ["/a/[b"], ["/a/ab"]),
        ("/a.b", ["/a.b"], ["/axb"]),
        ("/a\nb", ["/a\nb"], ["/a"]),
    ],
)  # fmt: skip
def test_a_path_pattern_fits_what_it_should(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    found = ROOTS.pattern((pattern,))
    assert [path for path in fitting if not found.fullmatch(path)] == []
    assert [path for path in others if found.fullmatch(path)] == []


def test_an_escaped_text_fits_itself_only() -> None:
    text = "a*b?[c]{d}"
    assert WordGlobs([escape(text)]).fit(text)
    assert not WordGlobs([escape(text)]).fit("aXb?[c]{d}")
    assert ROOTS.pattern((escape(f"/{text}"),)).fullmatch(f"/{text}")


def test_a_path_is_judged_as_named_and_as_it_leads() -> None:
    linked = path("read", "/etc/shadow", named="/w/notes")
    assert fits("match: {path: /etc/shadow}, then: deny", linked)
    assert fits("match: {path: notes}, then: deny", linked)
    assert not fits("match: {path: notes}, then: allow", linked)
    assert not fits("match: {path: /etc/shadow}, then: allow", linked)


def test_a_rule_that_allows_must_fit_all_places_and_others_any() -> None:
    two = path("read", "/w/a", "/etc/b", named="/w/*")
    assert not fits("match: {inside: workspace}, then: allow", two)
    assert not fits("match: {outside: workspace}, then: allow", two)
    assert fits("match: {outside: workspace}, then: ask", two)
    several = program(
        "cp",
        places=(
            PathAccess("read", "a", "/w/a", ("/w/a",)),
            PathAccess("write", "b", "/b", ("/b",)),
        ),
    )
    assert not fits("match: {program: cp, path: '{workspace}/**'}, then: allow", several)
    assert fits("match: {program: cp, path: /b}, then: deny", several)


def test_conditions_on_places_hold_for_one_and_the_same_place() -> None:
    source, target = (
        PathAccess("read", "a", "/etc/a", ("/etc/a",)),
        PathAccess("write", "b", "/b", ("/b",)),
    )
    several = program("cp", places=(source, target))
    assert not fits("match: {program: cp, path: /etc/**, access: write}, then: deny", several)
    assert fits("match: {program: cp, path: /etc/**, access: read}, then: deny", several)


def test_a_place_that_nobody_can_name_is_fitted_only_by_everything() -> None:
    unnamed = path("read")
    assert fits("match: {path: '**'}, then: ask", unnamed)
    assert not fits("match: {path: /**}, then: deny", unnamed)
    assert not fits("match: {path: '**/.env'}, then: ask", unnamed)
    ending = Operation("path", places=(PathAccess("read", '"$folder"/.env'),))
    assert fits("match: {path: '**/.env'}, then: ask", ending)
    assert not fits("match: {path: '**/.env', unknown: true}, then: allow", ending)
    assert not fits("match: {outside: workspace}, then: deny", unnamed)
    assert fits("match: {unknown: true}, then: deny", unnamed)
    for rule in ("{path: '**'}", "{access: read}", "{inside: workspace}", "{tool: terminal}"):
        assert not fits(f"match: {rule}, then: allow", unnamed)


def test_what_is_not_understood_is_allowed_only_by_a_rule_that_says_so() -> None:
    unknown = Operation("unknown", "$X", reason="nobody can tell")
    assert not fits("match: {tool: terminal}, then: allow", unknown)
    assert fits("match: {tool: terminal, unknown: true}, then: allow", unknown)
    assert not fits("match: {kind: [call, program]}, then: allow", unknown)
    assert fits("match: {kind: unknown, unknown: true}, then: allow", unknown)
    assert fits("match: {tool: terminal}, then: deny", unknown)
    assert not fits("match: {unknown: true}, then: allow", program())


def test_an_allowed_program_does_not_bring_its_paths_along() -> None:
    rules = f"""
    {ALLOW_ALL_CALLS}
    - {{id: cat, match: {{program: cat}}, then: allow}}
    """
    assert action(rules, effect_of("cat /etc/shadow")) == "ask"
    assert action(f"{rules}- {{id: r, match: {{path: /etc/**}}, then: allow}}",
                  effect_of("cat /etc/shadow")) == "allow"  # fmt: skip


def test_a_rule_with_program_and_path_covers_the_program_and_its_paths() -> None:
    rules = f"""
    {ALLOW_ALL_CALLS}
    - {{id: build, match: {{program: rm, path: build/**}}, then: allow}}
    """
    assert action(rules, effect_of("rm -r build/x")) == "allow"
    assert action(rules, effect_of("rm -r build/x src")) == "ask"


def test_allowed_paths_do_not_allow_the_program_that_touches_them() -> None:
    rules = f"""
    {ALLOW_ALL_CALLS}
    - {{id: inside, match: {{inside: workspace}}, then: allow}}
    """
    assert action(rules, effect_of("rm a")) == "ask"


def test_a_folder_that_holds_a_path_is_found() -> None:
    rule = "match: {holds: '{hermes}'}, then: ask"
    assert fits(rule, path("delete", "/home/u"))
    assert fits(rule, path("delete", "/"))
    assert fits(rule, path("delete", "/home/u/.hermes"))
    assert not fits(rule, path("delete", "/home/u/.hermes/logs"))
    assert not fits(rule, path("delete", "/home/user"))


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.example.com", ["a.example.com", "u@A.EXAMPLE.com.:443"], ["example.com", "x.org"]),
        ("10.0.0.0/8", ["10.1.2.3", "10.1.2.3:80", "0xa010203"], ["11.0.0.1", "ten.example"]),
        ("fd00::/8", ["[fd00::1]:80"], ["fe80::1"]),
        ("1.2.3.4", ["1.2.3.4", "16909060", "[::ffff:1.2.3.4]"], ["1.2.3.5"]),
        ("loopback", ["localhost", "127.0.0.1", "127.1", "::1", "0", "x.localhost"], ["10.0.0.1"]),
        ("metadata", ["169.254.169.254", "0251.0376.0251.0376", "metadata.google.internal",
                      "64:ff9b::a9fe:a9fe"], ["169.254.1.1"]),
        ("private", ["192.168.1.1", "db", "x.svc", "x.local", "localhost", "169.254.1.1",
                     "100.64.0.1", "9" * 5000], ["8.8.8.8", "example.com"]),
        ("public", ["8.8.8.8", "example.com"], ["10.0.0.1", "db", "localhost"]),
        ("*", ["x", ""], []),
    ],
)  # fmt: skip
def test_a_host_pattern_fits_what_it_should(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    def fit(host: str) -> bool:
        return fits(
            f"match: {{host: '{pattern}'}}, then: deny", Operation("host", host, hosts=(host,))
        )

    assert [host for host in fitting if not fit(host)] == []
    assert [host for host in others if fit(host)] == []


def test_an_allowed_host_must_be_told_and_be_the_only_one() -> None:
    rule = "match: {program: curl, host: '*'}, then: allow"
    assert fits(rule, program("curl", hosts=("a", "b")))
    assert not fits(rule, program("curl", hosts=("a", "")))
    assert not fits(rule, program("curl"))
    assert not fits("match: {host: a}, then: allow", program("curl", hosts=("a",)))


@pytest.mark.parametrize(
    ("time", "moment", "expected"),
    [
        ('{hours: "09:00-17:00"}', 12 * 3600, True),
        ('{hours: "09:00-17:00"}', 17 * 3600, False),
        ('{hours: "22:00-06:00"}', 23 * 3600, True),
        ('{hours: "22:00-06:00"}', 5 * 3600, True),
        ('{hours: "22:00-06:00"}', 6 * 3600, False),
        ('{hours: ["00:00-01:00", "23:00-24:00"]}', 86_399, True),
        ("{days: thu}", 0, True),
        ("{days: [mon, fri]}", 0, False),
        ('{hours: "00:00-02:00", zone: Asia/Tokyo}', 16 * 3600, True),
        ("{days: fri, zone: Asia/Tokyo}", 16 * 3600, True),
    ],
)
def test_a_rule_holds_at_its_time(time: str, moment: float, expected: bool) -> None:
    assert fits(f"match: {{time: {time}}}, then: ask", program(), time=moment) == expected


IN_PRODUCTION = "--namespace=prod*"


@pytest.mark.parametrize(
    ("words", "allowed", "denied", "allowed_without", "denied_without"),
    [
        ("-n production", True, True, False, False),
        ("-nproduction", True, True, False, False),
        ("--namespace=production", True, True, False, False),
        ("--namespace production", True, True, False, False),
        ("-n staging", False, False, True, True),
        ("production", False, False, True, True),
        ("-n staging --namespace production", False, True, False, True),
        ("-n $WHERE", False, True, False, True),
        ("--namespace=$WHERE", False, True, False, True),
        ("-n prod*", False, True, False, True),
        ("$MORE", False, True, False, True),
        ("-n production $MORE", False, True, False, True),
    ],
)
def test_the_value_of_an_option_counts_however_it_is_written(
    words: str, allowed: bool, denied: bool, allowed_without: bool, denied_without: bool
) -> None:
    (act,) = read(f"kubectl scale x {words}", folder="/w", home="/home/u")

    def fit(key: str, then: str) -> bool:
        return fits(f"match: {{{key}: '{IN_PRODUCTION}'}}, then: {then}", act)

    assert (fit("option", "allow"), fit("option", "deny")) == (allowed, denied)
    assert fit("no_option", "allow") == allowed_without
    assert fit("no_option", "deny") == denied_without


@pytest.mark.parametrize(
    ("command", "option", "allowed", "denied"),
    [
        ("kubectl apply --dry-run", "--dry-run=", True, True),
        ("kubectl apply --dry-run=none", "--dry-run=server", False, False),
        ("kubectl delete x --all=false", "--all=false", True, True),
        ("terraform -chdir=x plan", "--chdir=x", True, True),
        ("somebodys --to=here", "--to=here", True, True),
        ("somebodys --to here", "--to=here", False, True),
        ("somebodys -there", "-t=here", False, True),
        ("somebodys $X", "--to=here", False, True),
        ("somebodys here", "--to=here", False, False),
    ],
)
def test_options_of_programs_that_nobody_described_are_judged_with_care(
    command: str, option: str, allowed: bool, denied: bool
) -> None:
    acts = read(command, folder="/w", home="/home/u")
    act = next(one for one in acts if one.kind == "program")
    assert fits(f"match: {{kind: program, option: '{option}'}}, then: allow", act) == allowed
    assert fits(f"match: {{kind: program, option: '{option}'}}, then: ask", act) == denied
