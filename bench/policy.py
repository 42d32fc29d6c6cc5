"""What the gate costs: an ordinary command, read and judged under 200 rules."""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.table import Figure, scaled
from hermes_agent.core.effects import Effect
from hermes_agent.policy import shell
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.gate import RuleGate
from hermes_agent.policy.path_resolvers import by_words, finish

RULES = scaled(200, 20)
ROUNDS = scaled(200, 2)
COMMANDS = (
    "ls -la", "cat README.md", "git status --short", "git log --oneline -20", "df -h",
    "kubectl get pods -n web -o wide", "kubectl logs deploy/api --tail=100 | grep -i error",
    "grep -rn 'TODO' src | head -20", "ps aux | sort -k3 -rn | head", "journalctl -u nginx -n 50",
    "docker ps --format '{{.Names}}'", "curl -s https://example.com/health", "tail -n 100 app.log",
    "cd src && find . -name '*.py' | wc -l", "systemctl status nginx", "rm -rf build dist",
    "for f in a b c; do echo $f; done", "python3 --version", "echo $((1 + 2)) > out.txt",
    "ssh web-1 uptime",
)  # fmt: skip


def rules() -> str:
    """A file of rules of all kinds; what it allows is little, so that most rules are asked."""
    lines = ["version: 1", "rules:"]
    kinds = (
        "match: {{program: [prog{n}, other{n}], verb: [get, list, 'describe*']}}, then: allow",
        "match: {{program: 'tool{n}*', flag: [--force, -f]}}, then: ask",
        "match: {{access: [write, delete], path: ['/srv/x{n}/**', '**/k{n}/*.key']}}, then: deny",
        "match: {{host: ['*.zone{n}.example', 10.{n}.0.0/16]}}, then: deny",
        "match: {{kind: program, argument: 'prod-{n}-*', no_flag: --dry-run}}, then: deny",
        "match: {{kind: program, terminal: 'prod{n}', time: {{hours: '22:00-06:00'}}}}, then: ask",
        "match: {{kind: program, actor: 'job/*{n}', source: cron}}, then: deny",
        "match: {{program: [kubectl, 'x{n}']}}, when: '\"ns-{n}\" in act.arguments', then: deny",
    )
    weights = (0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 7)
    for n in range(RULES):
        rule = kinds[weights[n % len(weights)]].format(n=n)
        lines.append(f"  - {{id: rule-{n}, {rule}}}")
    return "\n".join(lines)


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "policies").mkdir()
        (home / "policies" / "bench.yaml").write_text(rules())
        began = time.perf_counter()
        gate = Policies.of_home(home, Path("/home/user")).gate("careful")
        loading = time.perf_counter() - began
        taken = judging(gate)
    yield Figure(
        f"judging a command under {RULES} rules, median",
        statistics.median(taken) * 1000, "ms", reading() * 1000, "ms reading it as acts", 1.0, "ms",
    )  # fmt: skip
    slow = statistics.quantiles(taken, n=100)[98]
    yield Figure(f"judging a command under {RULES} rules, 99 of 100", slow * 1000, "ms")
    yield Figure(f"reading the bundled policies and {RULES} rules", loading * 1000, "ms")


def judging(gate: RuleGate) -> list[float]:
    taken = []
    resolve = by_words("/workspace", {})
    for turn in range(ROUNDS):
        for command in COMMANDS:
            effect = Effect(
                "e", "terminal", {"command": command}, "s", "/workspace",
                capabilities=("process",), command=command, time=float(turn),
            )  # fmt: skip
            began = time.perf_counter()
            finish(gate.judge(effect, resolve))
            taken.append(time.perf_counter() - began)
    return taken[len(COMMANDS) :]  # the first round reads tables and fills the index


def reading() -> float:
    taken = []
    for _ in range(ROUNDS):
        for command in COMMANDS:
            began = time.perf_counter()
            shell.read(command, folder="/workspace", home="/home/user")
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    sys.exit("run `python -m bench policy`")
