"""Check Kubernetes manifests against a policy before they are merged: labels, requests and limits,
no `latest`, non-root, no access to the node, probes.

The shipped policy applies, extended by `manifests.yaml` in the home or by --policy FILE.
Exit code 0: no errors (warnings are shown); 1: errors; 2: usage error."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.output.formatting import print_json, table
from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.terminal import clean
from hermes_agent.host.paths import find_home

if TYPE_CHECKING:
    from hermes_drift.manifests.check import CheckedManifests, ManifestFinding, Unchecked
    from hermes_drift.manifests.policy import Policy


SHOWN = 12
"""So many kinds or files a line names."""


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_rules, policy="")
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    check = actions.add_parser("check", help="check files, folders or standard input (`-`)")
    check.set_defaults(act=_check)
    check.add_argument("paths", nargs="+", metavar="PATH", help="a file, a folder, or -")
    check.add_argument(
        "--strict", action="store_true", help="treat warnings and unrendered charts as errors"
    )
    check.add_argument(
        "--format", choices=("text", "github"), default="text",
        help="github: pull request annotations",
    )  # fmt: skip
    rules = actions.add_parser("rules", help="show the active rules and what each requires")
    rules.set_defaults(act=_rules)
    for action in (check, rules):
        action.add_argument(
            "--policy", default="", metavar="FILE", help="a policy that extends the shipped one"
        )
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    return int(options.act(options))


def _policy(options: argparse.Namespace) -> "Policy":
    from pathlib import Path

    from hermes_drift.manifests.policy import load

    own = Path(find_home(os.environ)) / "manifests.yaml"
    return load(Path(options.policy) if options.policy else own if own.exists() else None)


# check


def _check(options: argparse.Namespace) -> int:
    from pathlib import Path

    from hermes_drift.manifests.check import TEMPLATE, check, manifest_files, read

    policy = _policy(options)
    sources: list[tuple[str, str | ManifestFinding | Unchecked]] = []
    for path in options.paths:
        if path == "-":
            sources.append(("-", _piped()))
        else:
            sources += ((str(file), read(file)) for file in manifest_files(Path(path)))
    if not sources:
        raise UsageError(
            f"no manifests in {', '.join(options.paths)}", "manifests end in .yaml, .yml or .json"
        )
    checked = check(sources, policy)
    doubts = checked.findings or any(one.reason == TEMPLATE for one in checked.unchecked)
    failed = bool(checked.count("error") or (options.strict and doubts))
    if options.json:
        print_json(_document(checked, policy, not failed))
    elif options.format == "github":
        for finding in checked.findings:
            print(_annotation(finding))
        for line in _unchecked(checked):
            print(clean(f"::notice title=hermes manifests::{_escape(line)}"))
    else:
        _print(checked)
    return int(failed)


def _piped() -> str:
    """Standard input. Nothing at all is an error: the program before the pipe has failed."""
    text = sys.stdin.read()
    if not text.strip():
        raise UsageError("standard input is empty", "check the command before the pipe")
    return text


def _document(checked: "CheckedManifests", policy: "Policy", ok: bool) -> dict[str, Any]:
    from msgspec import to_builtins

    counts = {"errors": checked.count("error"), "warnings": checked.count("warning")}
    return {"ok": ok, "policy": policy.path, **counts, **to_builtins(checked)}


def _print(checked: "CheckedManifests") -> None:
    """Print the findings; reason and fix only the first time a rule comes up."""
    explained: set[tuple[str, str]] = set()
    for finding in checked.findings:
        where = f"{finding.path}:{finding.line}:{finding.column}"
        print(clean(f"{where}: {finding.level}: {_said(finding)} [{finding.rule}]"))
        if (finding.rule, finding.fix) in explained:
            continue
        explained.add((finding.rule, finding.fix))
        if finding.why:
            print(clean(f"  why: {finding.why}"))
        if finding.fix:
            print(clean(f"  fix: {finding.fix}"))
    if checked.let_off:
        print(f"{chr(10) if checked.findings else ''}waived:")
        for one in checked.let_off:
            found = one.finding
            print(clean(f"  {found.path}:{found.line}: {_said(found)} [{found.rule}]"))
            print(clean(f"    {one.by}: {one.reason}"))
    if checked.findings or checked.let_off:
        print()
    print(_summary(checked))
    for line in _unchecked(checked):
        print(clean(line))


def _unchecked(checked: "CheckedManifests") -> list[str]:
    """What no rule has looked at: a line for each reason, with kinds and files."""
    reasons: dict[str, list[str]] = {}
    for one in checked.unchecked:
        reasons.setdefault(one.reason, []).append(one.kind or f"{one.path}:{one.line}")
    lines = []
    for reason, names in reasons.items():
        counts = [
            f"{count} {name}" if (count := names.count(name)) > 1 else name
            for name in dict.fromkeys(names)
        ]
        more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
        lines.append(f"not checked, {reason}: {', '.join(counts[:SHOWN])}{more}")
    return lines


def _summary(checked: "CheckedManifests") -> str:
    found = f"{_count(checked.workloads, 'workload')} of {_count(checked.objects, 'object')}"
    wrong = (
        f"{_count(checked.count('error'), 'error')}, {_count(checked.count('warning'), 'warning')}"
    )
    parts = [f"{found} in {_count(checked.files, 'file')}", wrong]
    if checked.let_off:
        parts.append(f"{len(checked.let_off)} waived")
    return "; ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _said(finding: "ManifestFinding") -> str:
    who = (
        f"{finding.object}, container {finding.container}" if finding.container else finding.object
    )
    return f"{who}: {finding.message}" if who else finding.message


def _annotation(finding: "ManifestFinding") -> str:
    """A workflow command of GitHub's, with its separators escaped."""
    level = "error" if finding.level == "error" else "warning"
    fields = {
        "file": finding.path, "line": finding.line, "col": finding.column,
        "title": f"{finding.rule}: {finding.object}" if finding.object else finding.rule,
    }  # fmt: skip
    named = ",".join(f"{name}={_escape(str(value), ':,')}" for name, value in fields.items())
    fix = f"\nfix: {finding.fix}" if finding.fix else ""
    return clean(f"::{level} {named}::{_escape(_said(finding) + fix)}")


def _escape(text: str, more: str = "") -> str:
    for letter in "%\r\n" + more:
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text


# rules


def _rules(options: argparse.Namespace) -> int:
    policy = _policy(options)
    rows = [
        {
            "rule": rule.id, "level": rule.level, "about": rule.about,
            "asks": ", ".join((*rule.parameters.want, *rule.parameters.allow)) or rule.must,
            "kinds": list(rule.kinds), "why": rule.why, "fix": rule.fix,
            "exceptions": sum(rule.id in exempt.rules for exempt in policy.exempts),
        }
        for rule in policy.rules.values()
    ]  # fmt: skip
    if options.json:
        print_json(rows)
        return 0
    print(f"{policy.title}: {policy.path}\n")
    heads = ("rule", "level", "exceptions", "why")
    print(table(heads, [tuple(str(row[head]) for head in heads) for row in rows]))
    return 0
