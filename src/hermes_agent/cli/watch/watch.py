"""Watch systems: run the health checks of `checks/` in the home, and show incidents as they go.
Alone, it starts the runtime and shows what happens; Ctrl-C ends the showing, not the watching.

  hermes watch add shop --run 'curl -fsS http://127.0.0.1:8080/healthz' --severity P1
  hermes watch list"""

import argparse
import os
import sys
import time
from typing import Any
from urllib.parse import quote

from hermes_agent.cli.actions import add_action
from hermes_agent.cli.actions import runtime as started
from hermes_agent.cli.arguments import json_option, positive
from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone
from hermes_agent.cli.output.formatting import ago, print_json, span, table
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.text.terminal import clean

Row = dict[str, Any]

LEVELS = ("critical", "hourly", "daily")
SEVERITIES = ("P0", "P1", "P2", "P3")
POLL_SECONDS = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_watch)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    add_action(actions, "list", _list, "the checks and log patterns, and how they stand")
    add_action(actions, "run", _run, "run a check now").add_argument("name", metavar="NAME")
    _add_arguments(add_action(actions, "add", _add, "write a check into the home"))
    installing = add_action(
        actions, "install", _install, "keep the runtime up with systemd, for this user"
    )
    installing.add_argument("--print", action="store_true", help="show the unit, write nothing")


def _add_arguments(adding: argparse.ArgumentParser) -> None:
    adding.add_argument("name", metavar="NAME", help="of the check")
    what = adding.add_mutually_exclusive_group(required=True)
    what.add_argument("--run", metavar="COMMAND", help="must end with exit code 0")
    what.add_argument("--log", metavar="PATH", help="a log; lines that fit --pattern signal")
    adding.add_argument("--pattern", metavar="RE", default="", help="for --log")
    adding.add_argument("--output", metavar="RE", default="", help="the output must hold this")
    adding.add_argument("--service", default="", help="what it is the health of; default: NAME")
    when = adding.add_mutually_exclusive_group()
    when.add_argument("--level", choices=LEVELS, default="", help="default: critical (5 minutes)")
    when.add_argument("--every", type=positive, metavar="SECONDS")
    adding.add_argument("--severity", choices=SEVERITIES, default="P2")
    adding.add_argument("--after", type=positive, metavar="N", help="failures in a row; default 2")
    adding.add_argument("--owner", default="", help="whose it is")
    adding.add_argument("--terminal", default="", metavar="NAME", help="where it runs")
    adding.add_argument("--policy", default="", metavar="PROFILE")
    adding.add_argument("--needs", default="", metavar="SERVICES", help="with commas")


def run(options: argparse.Namespace) -> int:
    return int(options.act(options))


# what there is


def _list(options: argparse.Namespace) -> int:
    found = started().get("/v1/checks")
    if options.json:
        print_json(rows_of(found))
    else:
        print(checks_text(found, time.time()))
    return 1 if found["problems"] else 0


def rows_of(found: Row) -> list[Row]:
    """Everything that is watched and what is wrong with it, as one list."""
    return [
        *({"kind": "check", **row} for row in found["checks"]),
        *({"kind": "log", **row} for row in found["logs"]),
        *({"kind": "problem", **row} for row in found["problems"]),
    ]


def checks_text(found: Row, now: float) -> str:
    lines = []
    if found["checks"]:
        cells = [_cells(row, now) for row in found["checks"]]
        lines.append(table(("check", "service", "when", "severity", "now", ""), cells))
    if found["logs"]:
        logs = [
            (row["name"], row.get("service") or row["name"], row.get("severity", "P2"),
             one_line(row["path"], 60), one_line(row["pattern"], 80))
            for row in found["logs"]
        ]  # fmt: skip
        lines.append(table(("log pattern", "service", "severity", "path", ""), logs))
    if not lines:
        lines.append("nothing is watched\nhint: `hermes watch add NAME --run COMMAND`")
    lines += [
        f"{row['path']}:{row['line']}:{row['column']}: {one_line(row['message'], 200)}"
        f"\nhint: {one_line(row['hint'], 200)}"
        for row in found["problems"]
    ]
    told = {row["path"] for row in found["problems"]}
    others = [one for one in found["troubles"] if one.split(":", 1)[0] not in told]
    return "\n".join([*lines, *(f"trouble: {one_line(one, 300)}" for one in others)])


def _cells(row: Row, now: float) -> tuple[str, ...]:
    state = row["state"]
    when = "daily 08:00" if row["daily"] else f"every {span(row['every'])}"
    if state.get("ok") is None:
        return (row["name"], row["service"], when, row["severity"], "not run yet", "")
    word = "holds" if state["ok"] else "FAILS"
    since = ago(state["since"], now) if state.get("since") else ""
    detail = one_line(state.get("detail", ""), 120)
    return (row["name"], row["service"], when, row["severity"], f"{word} since {since}", detail)


def _run(options: argparse.Namespace) -> int:
    found = started().post(f"/v1/checks/{quote(options.name, safe='')}/run")
    if options.json:
        print_json(found)
    else:
        spent = f"{found.get('seconds', 0):.1f} s"
        print(f"{options.name}: {'holds' if found['ok'] else 'FAILS'} ({spent})")
        if found.get("detail"):
            print(clean(found["detail"]))
    return 0 if found["ok"] else 1


# writing


def _add(options: argparse.Namespace) -> int:
    from hermes_agent.host.paths import find_home
    from hermes_agent.incidents.monitoring.config import read

    home = find_home(os.environ)
    name = f"{options.name}.yaml"
    text = check_text(options)
    wrong = read(name, text).problems
    if wrong:
        raise UsageError(wrong[0].message, wrong[0].hint)
    if options.terminal:
        _find_terminal(home, options.terminal)
    folder = os.path.join(home, "checks")
    path = os.path.join(folder, name)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _write_new(path, text)
    except FileExistsError:
        raise UsageError(f"there is a check in {path}", "edit the file, or remove it") from None
    except OSError as error:
        raise HermesError(f"cannot write {path}: {error.strerror}", "`hermes doctor`") from None
    if options.json:
        print_json({"name": options.name, "file": path})
    else:
        hint = f"`hermes watch run {options.name}` tries it" if options.run else "`hermes watch`"
        print(f"written to {path}\nhint: {hint}")
    return 0


def _find_terminal(home: str, name: str) -> None:
    from pathlib import Path

    from hermes_agent.host.config import load_settings
    from hermes_agent.host.home import Home
    from hermes_agent.host.terminal_pool import TerminalPool

    place = Home(Path(home))
    settings = load_settings(place.config, os.environ)
    TerminalPool(settings, os.environ, place.terminals, time.time).place(name)


def _write_new(path: str, text: str) -> None:
    """The whole file, or none."""
    with open(path, "x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            os.unlink(path)
            raise


def check_text(options: argparse.Namespace) -> str:
    """A check file, as a person would write it."""
    import yaml

    if bool(options.log) != bool(options.pattern):
        raise UsageError("--log and --pattern go together", "name a log and what must not be in it")
    entry: Row = {"name": options.name}
    if options.log:
        entry["log"] = {"path": options.log, "pattern": options.pattern}
    else:
        entry["run"] = options.run
    if options.output:
        entry["expect"] = {"output": options.output}
    for key in ("service", "level", "every", "severity", "after", "owner", "terminal", "policy"):
        if value := getattr(options, key):
            entry[key] = value
    if needs := [one.strip() for one in options.needs.split(",") if one.strip()]:
        entry["needs"] = needs
    return yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)


def _install(options: argparse.Namespace) -> int:
    """A unit of systemd that keeps the runtime up."""
    import shutil

    from hermes_agent.host.paths import UNIT, find_home, unit_path

    unit = unit_text(sys.executable, find_home(os.environ))
    if options.print:
        print(unit, end="")
        return 0
    path = unit_path(os.environ)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(unit)
    there = shutil.which("systemctl") is not None and os.path.isdir("/run/systemd/system")
    steps = [
        "systemctl --user daemon-reload",
        f"systemctl --user enable --now {UNIT}",
        "loginctl enable-linger",
    ]
    if options.json:
        print_json({"unit": path, "systemd": there, "next": steps if there else []})
        return 0
    print(f"written to {path}")
    if there:
        print("now run:\n" + "\n".join(f"  {step}" for step in steps))
    else:
        print(
            "systemd does not run here: have whatever starts your services run\n"
            f"  {sys.executable} -m hermes_agent serve\n"
            "with HERMES_HOME set as in the unit, and start it again when it ends"
        )
    return 0


def unit_text(python: str, home: str) -> str:
    """Stopping leaves commands under way to their keepers, as `hermes down` does."""

    def quoted(text: str) -> str:
        safe = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
        return f'"{safe}"'

    return f"""[Unit]
Description=Hermes: watches, jobs and chats
After=network-online.target

[Service]
ExecStart={quoted(python)} -m hermes_agent serve
Environment={quoted(f"HERMES_HOME={home}")}
Restart=always
RestartSec=2
KillMode=process

[Install]
WantedBy=default.target
"""


# showing


def _watch(options: argparse.Namespace) -> int:
    api = started()
    began = time.time()
    found = api.get("/v1/checks")
    if options.json:
        print_json(rows_of(found))
        return 1 if found["problems"] else 0
    print(checks_text(found, time.time()), flush=True)
    showing = Showing(api, began, found["checks"])
    try:
        while True:
            showing.look()
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        showing.close()
        print("the runtime goes on watching; `hermes down` stops it")
    return 0


class Showing:
    """What happens after `checks` stood as they were shown, as it happens. A runtime that goes away
    is waited for, or started again."""

    def __init__(self, api: RuntimeClient, began: float, checks: list[Row]) -> None:
        from hermes_agent.cli.watch.incidents.view import IncidentView

        self._api = api
        self._began = began
        self._view = IncidentView(sys.stdout, began)
        self._feeds: dict[str, Any] = {}
        self._states: dict[str, bool | None] = _states(checks)
        self._away = False

    def look(self) -> None:
        try:
            if self._away:
                self._api.ensure()
                self._away = False
            self._look()
        except RuntimeGone:
            self._away = True
        except HermesError as error:
            self._view.status(error.message, time.time())

    def close(self) -> None:
        self._view.close()

    def _look(self) -> None:
        from hermes_agent.cli.watch.incidents.feed import Feed

        found = self._api.get("/v1/checks")
        self._tell_checks(found["checks"])
        rows = self._api.get("/v1/incidents", limit=20)
        for one in reversed(rows):
            open = one["state"] not in ("resolved", "escalated", "closed")
            if one["id"] not in self._feeds and (open or one["opened"] >= self._began):
                self._feeds[one["id"]] = Feed(self._api, one["id"])
        for id, feed in self._feeds.items():
            if not feed.ended:
                for said in feed.poll():
                    text = f"{id} {said.text}" if len(self._feeds) > 1 else said.text
                    self._view.say(said._replace(text=text))
        waiting = sum(one["state"] == "escalated" and one["source"] != "drill" for one in rows)
        self._tell_standing(found["checks"], waiting)

    def _tell_checks(self, checks: list[Row]) -> None:
        from hermes_agent.cli.watch.incidents.view import IncidentLine

        now = _states(checks)
        before, self._states = self._states, now
        for row in checks:
            ok = now[row["name"]]
            if ok is not None and ok != before.get(row["name"]):
                detail = one_line(row["state"].get("detail", ""), 150)
                text = f"{row['name']} holds" if ok else f"{row['name']} fails: {detail}"
                moment = row["state"].get("last", time.time())
                self._view.say(IncidentLine(moment, "check", text, "good" if ok else "bad"))

    def _tell_standing(self, checks: list[Row], waiting: int) -> None:
        failing = sum(row["state"].get("ok") is False for row in checks)
        open = [feed for feed in self._feeds.values() if not feed.over]
        words = [f"{len(checks)} checks", f"{failing} fail", f"{len(open)} incidents"]
        words += [f"{waiting} wait for people"] if waiting else []
        standing = f" · {open[-1].standing}" if open else ""
        self._view.status(", ".join(words) + standing, time.time())


def _states(checks: list[Row]) -> dict[str, bool | None]:
    return {row["name"]: row["state"].get("ok") for row in checks}
