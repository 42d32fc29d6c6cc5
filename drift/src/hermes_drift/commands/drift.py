"""Compare live state with what a Git repository declares. `hermes drift [REPO]` runs an audit;
`list` and `show` report on earlier ones.

The repository's `drift.yaml` says what each part of it declares: files, systemd units, Compose
services, packages, Kubernetes objects. Live state is read on a terminal, under the read-only
policy profile `observe`."""

import argparse
import os
from collections.abc import Sequence
from typing import Any

from hermes_agent.cli.actions import add_action, connect
from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.output.formatting import print_json
from hermes_agent.core.errors import NotFound, UsageError

ACTIONS = ("run", "list", "show", "accept", "reject")
SCOPES = ("files", "units", "compose", "packages", "kubernetes")
"""The same as in `values`, which takes longer to import."""

CODES = """\
Exit code 0: everything is as declared or known to be harmless; 1: something is notable or
dangerous, or could not be checked; 2: usage error."""


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    audit = add_action(actions, "run", _run, "audit what the repository declares")
    audit.description = f"{audit.description}\n\n{CODES}"
    audit.add_argument(
        "repository", nargs="?", default=".", metavar="REPO", help="default: the current folder"
    )
    audit.add_argument(
        "--scope", action="append", default=[], choices=SCOPES, metavar="SCOPE",
        help=f"one of {', '.join(SCOPES)}; repeatable; default: all declared",
    )  # fmt: skip
    audit.add_argument("--terminal", default="", metavar="NAME", help="where to read live state")
    audit.add_argument("--ref", default="", help="the commit to compare with; default: HEAD")
    audit.add_argument("--policy", default="", help="policy profile; default: observe")
    audit.add_argument(
        "--signal", action="store_true", help="raise a signal for each dangerous object"
    )
    add_action(actions, "list", _list, "audits, newest first")
    show = add_action(actions, "show", _show, "one audit, or one finding with its diff")
    show.add_argument("id", metavar="ID", help="drift-4, or drift-4.2")
    for name, what in (
        ("accept", "accept a finding and others like it as harmless"),
        ("reject", "reject a finding: it is not harmless"),
    ):
        deciding = add_action(actions, name, _decide, what)
        deciding.add_argument("id", metavar="ID", help="drift-4.2")
        deciding.add_argument("--why", default="", metavar="TEXT", help="shown in later audits")
        deciding.add_argument("--by", default="", metavar="NAME", help="default: you")
        deciding.set_defaults(says=f"{name}ed")


def completed(words: Sequence[str]) -> list[str]:
    """`hermes drift REPO` is `hermes drift run REPO`."""
    first = next((word for word in words if not word.startswith("-")), "")
    alone = not first and not {"-h", "--help"} & set(words)
    return ["run", *words] if alone or (first and first not in ACTIONS) else list(words)


def run(options: argparse.Namespace) -> int:
    return int(options.act(options) or 0)


def _run(options: argparse.Namespace) -> int:
    from hermes_drift.commands.show import audit_text, is_well

    body: dict[str, object] = {
        "repository": os.path.abspath(os.path.expanduser(options.repository)),
        "scopes": options.scope,
        "terminal": options.terminal or os.environ.get("HERMES_TERMINAL", ""),
        "ref": options.ref,
        "policy": options.policy,
    }
    api = connect()
    audit = api.post("/v1/drift", body)
    if options.json:
        print_json(audit)
    else:
        print(audit_text(audit))
    if options.signal:
        _signal(api, audit, options.json)
    return 0 if is_well(audit) else 1


def _signal(api: Any, audit: dict[str, Any], silent: bool) -> None:
    """Raise one signal for each object with dangerous drift."""
    from hermes_drift.values import fingerprint_of

    dangerous: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for scope in audit["scopes"]:
        for one in scope["findings"]:
            if one["weight"] == "dangerous":
                dangerous.setdefault((one["terminal"], one["object"]), []).append(one)
    for (terminal, object), found in dangerous.items():
        fields = ", ".join(one["field"] for one in found)
        api.post(
            "/v1/signals",
            {
                "source": "person",
                "fingerprint": fingerprint_of(audit["repository"], terminal, object),
                "title": f"dangerous drift: {object} ({fields})",
                "service": object.replace(" ", "/").rpartition("/")[2].partition(".")[0],
                "severity": "P1",
                "detail": "\n".join(
                    f"{one['id']} {one['field']}: {one['why']}; declared {one['declared']}, "
                    f"live {one['live']}"
                    for one in found
                ),
                "terminal": terminal,
                "labels": {"audit": audit["id"]},
            },
        )
        if not silent:
            print(f"raised a signal: {object} ({fields})")


def _list(options: argparse.Namespace) -> None:
    from hermes_drift.commands.show import list_text

    rows = connect().get("/v1/drift")
    if options.json:
        print_json(rows)
    else:
        print(list_text(rows))


def _show(options: argparse.Namespace) -> None:
    from hermes_drift.commands.show import audit_text, finding_text

    shown = connect().get(_path(options.id))
    if options.json:
        print_json(shown)
    else:
        print(audit_text(shown) if "scopes" in shown else finding_text(shown))


def _decide(options: argparse.Namespace) -> None:
    from hermes_drift.commands.show import pattern_text

    if options.says == "accepted" and not options.why.strip():
        raise UsageError("a reason is required", f"hermes drift accept {options.id} --why TEXT")
    by = options.by or os.environ.get("USER") or os.environ.get("LOGNAME") or "unknown"
    body: dict[str, object] = {"says": options.says, "why": options.why, "by": by}
    pattern = connect().post(_path(options.id), body)
    if options.json:
        print_json(pattern)
    else:
        print(pattern_text(pattern))


def _path(id: str) -> str:
    if not id.replace(".", "").replace("-", "").isalnum():
        raise NotFound(f"no audit {id!r}", "`hermes drift list` shows them")
    return f"/v1/drift/{id}"
