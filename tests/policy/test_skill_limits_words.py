"""Bounds over the words of programs: ordinary work passes, and what leads further than the words
tell does not."""

import pytest

from hermes_agent.core.skills import SkillLimits
from tests.support.policies import effect_of, judge

EVERYTHING = """
- {id: known, match: {tool: "*"}, then: allow}
- {id: odd, match: {tool: "*", kind: [call, program, path, host, unknown], unknown: true},
   then: allow}
"""
LINKS = {"docs/link": "/etc"}


def action(bounds: SkillLimits, run: str, folder: str = "") -> str:
    effect = effect_of(run, bounds=(bounds,), folder=folder)
    return judge(EVERYTHING, effect, links=LINKS).verdict.action


ORDINARY = [
    "ls docs", "ls -la docs", "ls -la docs/sub", "ls -lt docs | head -5", "ls -I '*.x' docs",
    "ls docs/*", "ls -R docs > docs/out", "du -sh docs", "du -d 1 docs", "du -sh docs/*",
    "grep -rn x docs", "grep -rn x docs/sub", "grep -r -e x docs", "grep -rf docs/p docs/sub",
    "grep -rn --include '*.md' 'a*$' docs", "grep '[a-z]*' docs/a", "cat docs/a | grep x",
    "find docs", "find docs -name x", "find ./docs -type f -name '*.md'", "cd docs && find -name x",
    "find docs -name x -exec rm {} ;", "find docs -type f -exec grep -l x {} +",
    "cat docs/*.md", "wc -l docs/*", "for f in docs/*; do grep foo \"$f\"; done",
    "cp -r docs/sub docs/out", "cp -a docs/sub docs/out", "cp -t docs/out docs/a",
    "cp --target-directory=docs/out docs/a", "mv -t docs/out docs/a", "rm -r docs/sub",
    "diff -u docs/a docs/b", "diff -r --no-dereference docs/a docs/b", "sort -u docs/a -o docs/b",
    "sha256sum docs/a", "chmod -R u+w docs", "find docs -newermt yesterday", "echo docs/*",
    "echo \"$X\" > docs/a", "[ -n \"$X\" ] && cat docs/a", "A='x y'; grep \"$A\" docs/a",
    "printf '%s\\n' 'a*' > docs/a", "sed -n '/a*$/p' docs/a", "awk '{print $1}' docs/a",
]  # fmt: skip


@pytest.mark.parametrize("declared", ["docs/**", "docs", "./docs", "{workspace}/docs"])
@pytest.mark.parametrize("run", ORDINARY)
def test_ordinary_work_within_the_paths_of_a_skill_is_done(run: str, declared: str) -> None:
    assert action(SkillLimits("s", paths=(declared,)), run) == "allow"


LEADS_OUT = [
    # a folder that is not named
    "ls", "ls -la", "ls -R", "ls -I docs", "ls > docs/out", "du -sh", "du -d 1", "du -X docs/a",
    "grep -r x", "grep -r -e x", "grep -rf docs/p", "grep -r x < docs/a", "grep --recurs x",
    "grep -d recurse x", "grep -r --exclude-from=docs/a x", "find", "find -name x",
    "cd docs; cd -; ls",
    # links within a folder
    "cp -rL docs/sub docs/out", "cp -aL docs/sub docs/out", "cp -ZL -r docs/sub docs/out",
    "cp -r --deref docs/sub docs/out", "diff -r docs/a docs/b", "diff -ur docs/a docs/b",
    "diff --recurs docs/a docs/b", "find -L docs", "find docs -follow", "grep -R x docs",
    "grep -inR x docs", "grep --dereference-recursive x docs", "ls -LR docs", "du -L docs",
    "chown -RL me docs", "chmod -RL u+w docs", "find docs -exec cat {} ;",
    "find docs -type l -exec cat {} +", "find docs -type f -o -name x -exec cat {} +",
    "find docs ! -type f -exec grep x {} +",
    # options that take a path, or a list of paths
    "sort -T /etc docs/a", "sort -T/etc docs/a", "sort --temp=/etc docs/a", "sort -o /etc/x docs/a",
    "md5sum -c docs/list", "sha256sum --check docs/list", "cksum --che docs/list",
    "tar -cf docs/x.tar -T docs/list", "tar cf docs/x.tar --files-from=docs/list",
    "xargs -a docs/list cat", "xargs --arg-file=docs/list echo", "cp -t /etc docs/a",
    "cp --target-directory=/etc docs/a", "cp --target-directory /etc docs/a", "mv -t /etc docs/a",
    "install -t /etc docs/a", "wc --files0-from=docs/list", "du --files0-from=docs/list",
    "sort --files0-from=docs/list", "rsync --files-from=docs/list docs/a docs/b",
    "find docs -anewer /etc/x", "find docs -cnewer /etc/x", "find docs -newermm /etc/x",
    "find -files0-from docs/list",
    # words that become others
    "grep [a-z]* docs/a", "grep a$X docs/a", "grep docs/$X docs/a", "grep $(cat docs/a) docs/b",
    "cut -d * docs/a", "ls -I * docs", "head -n $N docs/a", "echo /etc/*", "echo *",
    "printf %s /etc/*", "cd docs/sub && echo ../../*",
]  # fmt: skip


@pytest.mark.parametrize("run", LEADS_OUT)
def test_what_leads_out_of_the_paths_of_a_skill_is_refused(run: str) -> None:
    assert action(SkillLimits("s", paths=("docs/**",)), run) == "deny"


@pytest.mark.parametrize("run", LEADS_OUT)
def test_a_skill_that_names_its_programs_stays_within_its_paths_too(run: str) -> None:
    programs = ("ls", "du", "grep", "find", "cp", "diff", "chown", "chmod", "cat", "sort", "md5sum",
                "sha256sum", "cksum", "tar", "xargs", "mv", "install", "wc", "rsync", "cut",
                "head", "echo", "printf", "cd")  # fmt: skip
    named = tuple(f"terminal({program}:*)" for program in programs)
    assert action(SkillLimits("s", tools=named, paths=("docs/**",)), run) == "deny"


@pytest.mark.parametrize("run", ["find -H /etc", "find -P /etc", "find -O3 /etc", "find -D x /etc"])
def test_folders_behind_an_option_of_find_are_not_taken_for_where_it_stands(run: str) -> None:
    assert action(SkillLimits("s", paths=("docs/**",)), run, folder="/workspace/docs") == "deny"


def test_where_the_shell_stands_within_the_paths_no_folder_need_be_named() -> None:
    for run in ("ls", "ls -la", "du -sh", "grep -rn x", "find -name x", "cd sub && ls"):
        assert (
            action(SkillLimits("s", paths=("docs/**",)), run, folder="/workspace/docs") == "allow"
        )
        assert action(SkillLimits("s", paths=("{workspace}",)), run) == "allow"


def test_a_command_that_is_named_word_for_word_is_meant() -> None:
    bounds = SkillLimits("s", tools=("terminal(ls -la)", "terminal(du:*)"), paths=("docs/**",))
    assert action(bounds, "ls -la") == "allow"
    assert action(bounds, "du") == "deny"


def test_a_plain_path_is_all_below_it_and_a_pattern_is_what_it_fits() -> None:
    assert action(SkillLimits("s", paths=("docs/a",)), "cat docs/a/b/c") == "allow"
    assert action(SkillLimits("s", paths=("docs/a",)), "cat docs/ab") == "deny"
    assert action(SkillLimits("s", paths=("docs/*",)), "cat docs/a/b") == "deny"
    assert action(SkillLimits("s", paths=("docs/[a]",)), "cat docs/a/b") == "deny"


HOSTS = [
    ("curl -s https://a.org/x", True),
    ("curl -L https://a.org/x", False),
    ("curl -fsSL https://a.org/x", False),
    ("curl --location https://a.org/x", False),
    ("curl --loc https://a.org/x", False),
    ("curl --location-trusted https://a.org/x", False),
    ("ssh a.org 'curl -L https://a.org/x'", False),
    ("wget https://a.org/x", False),
    ("wget --max-redirect=0 https://a.org/x", True),
    ("wget --max-redirect=5 https://a.org/x", False),
    ("wget --max-redirect=0 --max-redirect=5 https://a.org/x", False),
    ("wget --max-redirect=$X https://a.org/x", False),
    ("wget --max-redirect=0 -r -H -D b.org https://a.org/x", False),
    ("aria2c https://a.org/x", False),
    ("lynx -dump https://a.org/x", False),
    ("http --follow https://a.org/x", False),
    ("ssh a.org uptime", True),
    ("ssh -o BatchMode=yes -o ConnectTimeout=5 a.org uptime", True),
    ("ssh -L 1:b.org:2 a.org uptime", False),
    ("ssh -L1:b.org:2 a.org uptime", False),
    ("ssh -R 1:b.org:2 a.org uptime", False),
    ("ssh -D 1080 a.org uptime", False),
    ("ssh -J b.org a.org uptime", False),
    ("ssh -J a.org a.org uptime", False),
    ("ssh -W b.org:22 a.org", False),
    ("ssh -o LocalForward=1:b.org:2 a.org uptime", False),
    ("ssh -odynamicforward=1080 a.org uptime", False),
    ("ssh -o 'ProxyJump b.org' a.org uptime", False),
    ("ssh -o $X a.org uptime", False),
    ("scp -J a.org a.org:x y", False),
    ("scp -o ProxyJump=a.org a.org:x y", False),
    ("git clone https://a.org/x", True),
    ("git clone --recurse-submodules https://a.org/x", False),
    ("git clone --recurs https://a.org/x", False),
    ("git clone --recursive https://a.org/x", False),
    ("git fetch --recurse-submodules=yes https://a.org/x", False),
]
NAMED = tuple(
    f"terminal({program}:*)"
    for program in ("curl", "wget", "ssh", "scp", "git", "aria2c", "lynx", "http")
)


@pytest.mark.parametrize("tools", [(), NAMED])
@pytest.mark.parametrize(("run", "expected"), HOSTS)
def test_what_can_lead_to_any_host_is_refused_whoever_names_the_program(
    run: str, expected: bool, tools: tuple[str, ...]
) -> None:
    assert (action(SkillLimits("s", tools, hosts=("a.org",)), run) == "allow") == expected


REDIRECTIONS = [
    ("git log > out", True),
    ("git log >> docs/out", True),
    ("git log > /workspace/out", True),
    ("git log > /dev/null 2>&1", True),
    ("git log < /etc/x", True),
    ("git log --output=/etc/x", True),
    ("truncate -s 0 /var/log/x", True),
    ("rm /var/log/*.gz", True),
    ("git log > /etc/x", False),
    ("git log >> /etc/x", False),
    ("git log >| /etc/x", False),
    ("git log &> /etc/x", False),
    ("git log 2> /etc/x", False),
    ("git log <> /etc/x", False),
    ("git log > ../x", False),
    ("git log > ~/.bashrc", False),
    ("git log > $X", False),
    ("git log > docs/link/x", False),
    ("git log /etc/x > /etc/x", False),
    ("cd /etc && git log > x", False),
    ("{ git log; } > /etc/x", False),
    ("> /etc/x", False),
    ("f() { git log; }; f > /etc/x", False),
    ("sh -c 'git log > /etc/x'", False),
    ("timeout 5 git log > /etc/x", False),
    ("rm /var/log/x > /etc/x", False),
    ("git log | tee /etc/x", False),
    ("ssh web1 'uptime > /tmp/x'", True),
    ("ssh web1 uptime > /tmp/x", False),
]


@pytest.mark.parametrize(("run", "expected"), REDIRECTIONS)
def test_a_skill_that_names_programs_does_not_let_the_shell_write_anywhere(
    run: str, expected: bool
) -> None:
    names = ("git", "truncate", "rm", "cd", "ssh web1")
    named = tuple(f"terminal({name}:*)" for name in names)
    assert (action(SkillLimits("s", named), run) == "allow") == expected


def test_a_skill_that_names_the_whole_terminal_bounds_no_redirection() -> None:
    assert action(SkillLimits("s", ("terminal",)), "git log > /etc/x") == "allow"
    paths = SkillLimits("s", ("terminal(git:*)",), ("/etc/x",))
    assert action(paths, "git log > /etc/x") == "allow"
    assert action(paths, "git log > out") == "deny"
