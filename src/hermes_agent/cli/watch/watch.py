"""Watch systems: run the health checks in `checks/` of the home, and show incidents as they happen.
Without an action, it starts the runtime and shows events; Ctrl-C ends the display, not the
watching.

  hermes watch install
  hermes watch add "the shop answers on https://shop.example within 2 seconds"
  hermes watch add shop --run 'curl -fsS http://127.0.0.1:8080/healthz' --severity P1
  hermes watch list"""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.arguments import positive
from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone, quoted
from hermes_agent.cli.output.formatting import count, one_line, table
from hermes_agent.core.errors import HermesError
from hermes_agent.core.text.format import span
from hermes_agent.core.text.terminal import clean

if TYPE_CHECKING:
    from hermes_agent.cli.watch.incidents.view import IncidentLine

Row = dict[str, Any]

LEVELS = ("critical", "hourly", "daily")
SEVERITIES = ("P0", "P1", "P2", "P3")
POLL_SECONDS = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _watch)
    add_action(actions, "list", _list, "the checks and log patterns, and their state")
    add_action(actions, "run", _run, "run a check now", "name")
    _add_arguments(add_action(actions, "add", _add, "add a check, in plain words or as a command"))
    _install_arguments(
        add_action(actions, "install", _install, "propose checks for what runs on this machine")
    )


def _install_arguments(installing: argparse.ArgumentParser) -> None:
    installing.add_argument("--yes", action="store_true", help="do not ask")
    installing.add_argument("--dry-run", action="store_true", help="show the plan, change nothing")
    installing.add_argument("--failing", action="store_true", help="add checks that fail now, too")
    installing.add_argument("--terminal", default="", metavar="NAME", help="look there")
    installing.add_argument("--print", action="store_true", help="print the systemd unit alone")


def _interval(text: str) -> int | str:
    """Seconds, or a time such as 5m, which the check's file has as well."""
    return positive(text) if text.lstrip("-").isdecimal() else text


def _add_arguments(adding: argparse.ArgumentParser) -> None:
    adding.add_argument(
        "name", metavar="NAME|WORDS", help="a name; or, without --run and --log, what must be true"
    )
    adding.add_argument("--yes", action="store_true", help="do not ask")
    adding.add_argument("--name", dest="called", default="", help="the name of a check in words")
    what = adding.add_mutually_exclusive_group()
    what.add_argument("--run", metavar="COMMAND", help="must exit with code 0")
    what.add_argument(
        "--log", metavar="PATH", help="a log; lines that match --pattern raise a signal"
    )
    adding.add_argument("--pattern", metavar="RE", default="", help="for --log")
    adding.add_argument("--output", metavar="RE", default="", help="the output must contain this")
    adding.add_argument("--service", default="", help="the service it checks; default: NAME")
    when = adding.add_mutually_exclusive_group()
    when.add_argument("--level", choices=LEVELS, default="", help="default: critical (5 minutes)")
    when.add_argument("--every", type=_interval, metavar="TIME", help="seconds, or 5m")
    adding.add_argument("--severity", choices=SEVERITIES, help="default: P2")
    adding.add_argument("--after", type=positive, metavar="N", help="failures in a row; default 2")
    adding.add_argument("--owner", default="", help="who is responsible")
    adding.add_argument("--terminal", default="", metavar="NAME", help="where it runs")
    adding.add_argument("--policy", default="", metavar="PROFILE")
    adding.add_argument(
        "--needs", default="", metavar="SERVICES", help="its dependencies, comma-separated"
    )


# showing


def _list(options: argparse.Namespace) -> int:
    found = connect().get("/v1/checks")
    return emit(
        options, rows_of(found), checks_text(found, time.time()), int(bool(found["problems"]))
    )


def rows_of(found: Row) -> list[Row]:
    """All checks, log patterns and problems, as one list."""
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
        lines.append("no checks yet\nhint: `hermes watch install` proposes some")
    lines += [
        f"{row['path']}:{row['line']}:{row['column']}: {one_line(row['message'], 200)}"
        f"\nhint: {one_line(row['hint'], 200)}"
        for row in found["problems"]
    ]
    shown = {row["path"] for row in found["problems"]}
    others = [one for one in found["troubles"] if one.split(":", 1)[0] not in shown]
    return "\n".join([*lines, *(f"problem: {one_line(one, 300)}" for one in others)])


def _cells(row: Row, now: float) -> tuple[str, ...]:
    state = row["state"]
    when = "daily 08:00" if row["daily"] else f"every {span(row['every'])}"
    if state.get("ok") is None:
        return (row["name"], row["service"], when, row["severity"], "not run yet", "")
    word = "passing" if state["ok"] else "FAILING"
    lasting = f" for {span(now - state['since'])}" if state.get("since") else ""
    detail = one_line(state.get("detail", ""), 120)
    return (row["name"], row["service"], when, row["severity"], f"{word}{lasting}", detail)


def _run(options: argparse.Namespace) -> int:
    found = connect().post(f"/v1/checks/{quoted(options.name)}/run")
    result = "passes" if found["ok"] else "FAILS"
    text = f"{options.name}: {result} ({found.get('seconds', 0):.1f} s)"
    if found.get("detail"):
        text += f"\n{clean(found['detail'])}"
    return emit(options, found, text, 0 if found["ok"] else 1)


# adding


def _add(options: argparse.Namespace) -> int:
    from hermes_agent.cli.watch import proposals

    if not options.run and not options.log:
        return proposals.add(options)
    path = proposals.write_check(proposals.check_entry(options))
    hint = f"`hermes watch run {options.name}` tests it" if options.run else "`hermes watch`"
    return emit(options, {"name": options.name, "file": path}, f"wrote {path}\nhint: {hint}")


def _install(options: argparse.Namespace) -> int:
    from hermes_agent.cli.watch import proposals

    return proposals.install(options)


# watching


def _watch(options: argparse.Namespace) -> int:
    api = connect()
    began = time.time()
    found = api.get("/v1/checks")
    code = int(bool(found["problems"]))
    emit(options, rows_of(found), checks_text(found, began), code)
    if options.json:
        return code
    feed = WatchFeed(api, began, found["checks"])
    try:
        while True:
            feed.poll()
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        feed.close()
        print("the runtime keeps watching; `hermes down` stops it")
    return 0


class WatchFeed:
    """Prints what happens after the checks were listed. A runtime that goes away is waited for, or
    started again."""

    def __init__(self, api: RuntimeClient, began: float, checks: list[Row]) -> None:
        from hermes_agent.cli.watch.incidents.view import IncidentView
        from hermes_agent.cli.watch.questions import FollowedQuestions

        self._api = api
        self._began = began
        self._view = IncidentView(sys.stdout, began)
        self._feeds: dict[str, Any] = {}
        self._states: dict[str, bool | None] = _states(checks)
        self._gone = False
        self._questions = FollowedQuestions(
            api, lambda: {feed.incident.get("session") for feed in self._feeds.values()}
        )

    def poll(self) -> None:
        try:
            if self._gone:
                self._api.ensure()
                self._gone = False
            self._poll()
        except RuntimeGone:
            self._gone = True
        except HermesError as error:
            self._view.status(error.message, time.time())

    def close(self) -> None:
        self._view.close()

    def _poll(self) -> None:
        from hermes_agent.cli.watch.incidents.feed import IncidentFeed

        found = self._api.get("/v1/checks")
        lines = self._check_lines(found["checks"])
        rows = self._api.get("/v1/incidents", limit=20)
        for one in reversed(rows):
            open = one["state"] not in ("resolved", "escalated", "closed")
            if one["id"] not in self._feeds and (open or one["opened"] >= self._began):
                self._feeds[one["id"]] = IncidentFeed(self._api, one["id"])
        for id, feed in self._feeds.items():
            if not feed.ended:
                for said in feed.poll():
                    text = f"{id} {said.text}" if len(self._feeds) > 1 else said.text
                    lines.append(said._replace(text=text))
        if lines:
            self._questions.interrupt()
            for line in lines:
                self._view.say(line)
            self._questions.resume()
        self._questions.poll(self._view.close)
        if self._questions.asking is not None:
            return  # the cursor stands at the prompt
        waiting = sum(one["state"] == "escalated" and one["source"] != "drill" for one in rows)
        self._print_status(found["checks"], waiting)

    def _check_lines(self, checks: list[Row]) -> "list[IncidentLine]":
        from hermes_agent.cli.watch.incidents.view import IncidentLine

        now = _states(checks)
        before, self._states = self._states, now
        lines = []
        for row in checks:
            ok = now[row["name"]]
            if ok is not None and ok != before.get(row["name"]):
                detail = one_line(row["state"].get("detail", ""), 150)
                text = f"{row['name']} passes" if ok else f"{row['name']} fails: {detail}"
                moment = row["state"].get("last", time.time())
                lines.append(IncidentLine(moment, "check", text, "good" if ok else "bad"))
        return lines

    def _print_status(self, checks: list[Row], waiting: int) -> None:
        failing = sum(row["state"].get("ok") is False for row in checks)
        open = [feed for feed in self._feeds.values() if not feed.over]
        words = [count(len(checks), "check"), f"{failing} failing", count(len(open), "incident")]
        words += [f"{waiting} waiting for people"] if waiting else []
        summary = f" · {open[-1].summary}" if open else ""
        self._view.status(", ".join(words) + summary, time.time())


def _states(checks: list[Row]) -> dict[str, bool | None]:
    return {row["name"]: row["state"].get("ok") for row in checks}
