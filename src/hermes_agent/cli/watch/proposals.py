"""Adds checks that Hermes proposes: for what runs on a machine (`hermes watch install`), and for
plain words (`hermes watch add`). A person sees each command, and agrees, before it is written."""

import argparse
import os
import sys
from typing import Any

from hermes_agent.cli.actions import connect, emit
from hermes_agent.cli.client.api import RuntimeClient, quoted
from hermes_agent.cli.home import home_and_settings, home_folder
from hermes_agent.cli.output.formatting import count, one_line, sure, table
from hermes_agent.cli.output.pager import show
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.text.format import span
from hermes_agent.core.text.terminal import clean

Row = dict[str, Any]

EVERY = {"critical": "every 5 minutes", "hourly": "every hour", "daily": "daily at 08:00"}
ENTRY = ("name", "run", "service", "level", "every", "severity", "terminal")
"""What a check's file has of a proposal."""


# in plain words


def add(options: argparse.Namespace) -> int:
    """Show what the words mean, and write it if a person agrees."""
    if options.log or options.pattern or options.output:
        raise UsageError("--pattern and --output go with --log and --run", "`hermes watch add -h`")
    if not options.name.strip():
        raise UsageError("the check says nothing", "`hermes watch add 'disk / stays below 85%'`")
    api = connect()
    words = {"words": options.name, "name": options.called, "terminal": options.terminal}
    with Progress("trying the check"):
        (found,) = api.post("/v1/checks/propose", words)["checks"]
    entry = entry_of(found, chosen(options))
    if options.json and not options.yes:
        return emit(options, {**found, "entry": entry, "added": False})
    if not options.json:
        show(words_text(found, entry))
    question = "it fails now; add it?" if found["state"] == "fails" else "add it?"
    if not sure(question, options.yes):
        return emit(options, {"added": False}, "nothing was added", 1)
    path = write_check(entry)
    if found.get("rule"):
        _adopt(found["rule"])
    api.post("/v1/checks/jobs")
    if found["state"] == "untried":
        found |= _first_run(api, entry["name"])
    text = f"wrote {path}"
    if found["state"] != "passes":
        text += f"\n{entry['name']} fails now: {one_line(found.get('detail', ''), 200)}"
    return emit(options, {**found, "entry": entry, "added": True, "file": path}, text)


def entry_of(found: Row, given: Row | None = None) -> Row:
    """A proposal as a check file has it, with the options that were given."""
    entry = {key: found[key] for key in ENTRY if found.get(key)}
    if "every" in entry:
        entry.pop("level")
    if given and {"every", "level"} & given.keys():
        entry = {key: value for key, value in entry.items() if key not in ("every", "level")}
    entry |= given or {}
    expect = {key: found[key] for key in ("output", "no_output") if found[key]}
    return entry | ({"expect": expect} if expect else {})


def words_text(found: Row, entry: Row) -> str:
    every = entry.get("every", "")
    when = EVERY[entry["level"]] if "level" in entry else "every "
    when += every if isinstance(every, str) else span(every)
    lines = [f"check   {entry['name']}", f"        $ {clean(entry['run'])}"]
    lines += [
        f"output  must {'not ' if key == 'no_output' else ''}match {found[key]}"
        for key in ("output", "no_output")
        if found.get(key)
    ]
    lines.append(f"when    {when}, {entry['severity']}")
    if by := found.get("by"):
        lines.append(f"by      {one_line(by)}; the gate says that the command only reads")
    if rule := found.get("rule"):
        lines += ["rule    it reaches another machine; adding it adds to policies/approved.yaml:"]
        lines += [f"        {line}" for line in rule.splitlines()]
    lines.append(f"now     {_now(found)}")
    return "\n".join(lines)


def _now(found: Row) -> str:
    detail = one_line(found.get("detail", ""), 160)
    return {
        "passes": "passes", "fails": f"FAILS: {detail}", "refused": f"refused: {detail}",
        "untried": "not tried: your policy asks first",
    }[found["state"]]  # fmt: skip


def _first_run(api: RuntimeClient, name: str) -> Row:
    done = api.post(f"/v1/checks/{quoted(name)}/run")
    return {"state": "passes" if done["ok"] else "fails", "detail": done.get("detail", "")}


def _adopt(rule: str) -> None:
    from hermes_agent.policy.files.approved_rules import adopt

    adopt(home_folder() / "policies", rule)


# files


def check_entry(options: argparse.Namespace) -> Row:
    """A check as its file has it."""
    if bool(options.log) != bool(options.pattern):
        raise UsageError(
            "--log and --pattern go together", "give a log and the pattern to look for"
        )
    entry: Row = {"name": options.name}
    if options.log:
        entry["log"] = {"path": options.log, "pattern": options.pattern}
    else:
        entry["run"] = options.run
    if options.output:
        entry["expect"] = {"output": options.output}
    return entry | chosen(options)


def chosen(options: argparse.Namespace) -> Row:
    """What the options say of how a check runs and how its failures are reported."""
    keys = ("service", "level", "every", "severity", "after", "owner", "terminal", "policy")
    found = {key: value for key in keys if (value := getattr(options, key))}
    if needs := [one.strip() for one in options.needs.split(",") if one.strip()]:
        found["needs"] = needs
    return found


def write_check(entry: Row) -> str:
    """Write a new file in `checks/`; its path."""
    import yaml

    from hermes_agent.incidents.monitoring.config import read

    text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=1_000)
    wrong = read(f"{entry['name']}.yaml", text).problems
    if wrong:
        raise UsageError(wrong[0].message, wrong[0].hint)
    if entry.get("terminal"):
        _find_terminal(entry["terminal"])
    path = _check_file(entry["name"])
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _write_new(path, text)
    except FileExistsError:
        raise UsageError(
            f"{path} already exists", "edit it, remove it, or take another name"
        ) from None
    except OSError as error:
        raise HermesError(f"cannot write {path}: {error.strerror}", "`hermes doctor`") from None
    return path


def _check_file(name: str) -> str:
    return os.path.join(home_folder(), "checks", f"{name}.yaml")


def _find_terminal(name: str) -> None:
    import time

    from hermes_agent.host.terminal_pool import TerminalPool

    home, settings = home_and_settings()
    TerminalPool(settings, os.environ, home / "terminals", time.time).place(name)


def _write_new(path: str, text: str) -> None:
    """Write the whole file, or none."""
    with open(path, "x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            os.unlink(path)
            raise


# for what runs here


def install(options: argparse.Namespace) -> int:
    """Propose checks, the jobs that run them and the unit that keeps the runtime up."""
    from hermes_agent.cli.run.unit import unit_text
    from hermes_agent.host.paths import unit_path

    unit, path = unit_text(sys.executable, str(home_folder())), unit_path(os.environ)
    if options.print:
        print(unit, end="")
        return 0
    api = connect()
    with Progress("looking at what runs"):
        found = api.post("/v1/checks/propose", {"terminal": options.terminal})
    for one in found["checks"]:
        if os.path.exists(taken := _check_file(one["name"])):  # it may not load, or name another
            one |= {"state": "taken", "detail": f"{taken} is there already"}
    wanted = ("passes", "fails") if options.failing else ("passes",)
    chosen = [one for one in found["checks"] if one["state"] in wanted]
    plan = {
        "checks": [{**one, "entry": entry_of(one)} for one in chosen],
        "left_out": [one for one in found["checks"] if one not in chosen],
        "skipped": found["skipped"],
        "jobs": jobs_planned(),
        "notifies": home_and_settings()[1].watch.notifies,
        "unit": "" if _holds(path, unit) else path,
        "installed": False,
    }
    if not options.json:
        show(plan_text(plan))
    if options.dry_run or (options.json and not options.yes):
        return emit(options, plan)
    if not chosen and not plan["unit"]:
        return emit(options, plan, "nothing new; `hermes watch list` shows what is watched")
    if not sure(f"add {count(len(chosen), 'check')}?", options.yes):
        return emit(options, plan, "nothing was added", 1)
    for one in plan["checks"]:
        write_check(one["entry"])
    text = f"added {count(len(chosen), 'check')} to {os.path.join(home_folder(), 'checks')}"
    if plan["unit"]:
        text += f"\n{_unit_written(path)}"
    api.post("/v1/checks/jobs")
    return emit(options, {**plan, "installed": True}, f"{text}\nhint: `hermes watch` shows them")


def jobs_planned() -> list[Row]:
    """The jobs that run the checks, with their times and where the briefing goes."""
    from hermes_agent.jobs.schedules.parse import machine_zone

    home, settings = home_and_settings()
    zone = settings.jobs.zone or machine_zone(os.environ)
    chats = [
        f"{name}:{given['home']}"
        for name, given in settings.channels.items()
        if given.get("home") and given.get("enabled", True)
    ]
    folder = home / "incidents"
    briefing = f"sent to {', '.join(chats)}" if chats else f"only kept in {folder / 'briefings'}"
    return [
        {"name": "watch-health", "when": EVERY["critical"], "what": "the critical checks"},
        {"name": "watch-audit", "when": EVERY["hourly"],
         "what": f"the hourly checks, and an audit in {folder / 'audits'}"},
        {"name": "watch-briefing", "when": f"{EVERY['daily']}, {zone}",
         "what": f"the daily checks, and a briefing, {briefing}", "chats": chats},
    ]  # fmt: skip


def plan_text(plan: Row) -> str:
    from hermes_agent.core.settings.root import NOBODY_NOTIFIED

    lines = []
    if plan["checks"]:
        cells = [
            (one["name"], EVERY[one.get("level", "critical")], one.get("severity", "P2"),
             "FAILS NOW" if one["state"] == "fails" else "passes", one_line(one["run"], 200))
            for one in plan["checks"]
        ]  # fmt: skip
        lines.append(table(("check", "how often", "severity", "now", "command"), cells))
    jobs = [(one["name"], one["when"], one["what"]) for one in plan["jobs"]]
    lines.append(table(("job", "when", ""), jobs))
    if not plan["jobs"][-1]["chats"]:
        lines += [
            "nobody is sent the briefing: no channel has a home chat",
            (
                "hint: `hermes gateway setup telegram`, for example; then"
                " `hermes config set channels.telegram.home CHAT`"
            ),
        ]
    if not plan["notifies"]:
        lines += [NOBODY_NOTIFIED[0], f"hint: {NOBODY_NOTIFIED[1]}"]
    if plan["unit"]:
        lines.append(f"unit    {plan['unit']} keeps the runtime running")
    for one in plan["left_out"]:
        word = {"fails": "fails now", "taken": "its file exists"}.get(one["state"], "cannot be run")
        lines.append(f"{word}, left out: {one['name']}: {one_line(one.get('detail', ''), 160)}")
        lines.append(f"    $ {one_line(one['run'], 200)}")
    lines += [f"not looked at: {one_line(one, 200)}" for one in plan["skipped"]]
    if any(one["state"] == "fails" for one in plan["left_out"]):
        lines.append("hint: fix it and run this again; `--failing` also adds what fails now")
    return "\n".join(lines)


def _holds(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == text
    except OSError:
        return False


def _unit_written(path: str) -> str:
    """What was written, and what is left to do."""
    import shutil

    from hermes_agent.cli.run.unit import write_unit
    from hermes_agent.host.paths import UNIT, has_systemd

    try:
        write_unit(str(home_folder()))
    except OSError as error:
        raise HermesError(f"cannot write {path}: {error.strerror}", "`--print` shows it") from None
    if shutil.which("systemctl") is not None and has_systemd():
        steps = (
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {UNIT}",
            "loginctl enable-linger",
        )
        return f"wrote {path}\nnow run:\n" + "\n".join(f"  {step}" for step in steps)
    return (
        f"wrote {path}\nsystemd is not running here; have your service manager run\n"
        f"  {sys.executable} -m hermes_agent serve\n"
        "with HERMES_HOME set as in the unit, and restart it when it exits"
    )
