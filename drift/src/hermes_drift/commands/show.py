"""Audits, findings and patterns as text."""

from itertools import groupby
from typing import Any

from hermes_agent.cli.output.formatting import one_line, stamp, table
from hermes_agent.core.text.terminal import clean
from hermes_drift.values import CALLED, DO, mark, place_of


def is_well(audit: dict[str, Any]) -> bool:
    return all(
        not scope["troubles"] and all(one["weight"] == "harmless" for one in scope["findings"])
        for scope in audit["scopes"]
    )


def audit_text(audit: dict[str, Any]) -> str:
    """By place, each with its mark in words; no table, because chats show those badly."""
    commit = f"{audit['commit'][:10]} ({one_line(audit['subject'], 60)})"
    lines = [f"{audit['id']}: {clean(audit['repository'])} at {commit}"]
    for scope in audit["scopes"]:
        weights = [one["weight"] for one in scope["findings"]]
        said = mark(weights) if weights else "0 findings"
        lines.append(f"{scope['scope']}: {scope['checked']} checked, {said}")
    for scope in audit["scopes"]:
        for place, group in groupby(scope["findings"], key=_place):
            findings = list(group)
            if place != scope["scope"] or len(audit["scopes"]) > 1:  # else it is said above
                lines += ["", f"{one_line(place)}: {mark([one['weight'] for one in findings])}"]
            for one in findings:
                lines += ["", *_brief(one)]
        lines += [f"\nnot checked, {scope['scope']}: {clean(one)}" for one in scope["troubles"]]
        lines += [f"\n{scope['scope']}: {clean(one)}" for one in scope["notes"]]
    if not any(scope["findings"] or scope["troubles"] for scope in audit["scopes"]):
        lines += ["", "no drift: everything is as declared"]
    elif any(scope["findings"] for scope in audit["scopes"]):
        lines += ["", "hint: `hermes drift show ID` shows a diff; `accept ID --why TEXT` and"]
        lines += ["      `reject ID` teach later audits"]
    return "\n".join(lines)


def _place(one: dict[str, Any]) -> str:
    return place_of(one["scope"], one["namespace"])


def _brief(one: dict[str, Any]) -> list[str]:
    where = f" on {one['terminal']}" if one["terminal"] not in ("", "local") else ""
    pattern = f" [{one['pattern']}]" if one["pattern"] else ""
    head = f"{one['id']}  {CALLED[one['weight']]}  {one_line(one['object'], 120)}"
    lines = [
        f"{head}: {one_line(one['field'], 120)}{where}",
        f"  declared {one_line(one['declared'], 120)}, live {one_line(one['live'], 120)}",
        f"  why: {one_line(one['why'], 200)}{pattern}",
        f"  changed by {who_text(one['who'])}",
    ]
    lines += [f"  history: {one_line(line, 200)}" for line in one["history"]]
    if one["skill"]:
        lines.append(f"  skill: {one_line(one['skill'], 80)}")
    advice = one["advice"]
    lines.append(f"  {DO[advice['do']]}: {one_line(advice['why'], 200)}")
    return lines + _commands(advice, recommended=True)


def _commands(advice: dict[str, Any], recommended: bool) -> list[str]:
    """The commands that do what is recommended, or the others."""
    return [
        f"    {f'{do}:':<8}{one_line(advice[do], 400)}"
        for do in ("revert", "adopt")
        if advice[do] and (advice["do"] in (do, "decide")) == recommended
    ]


def who_text(who: dict[str, Any]) -> str:
    kinds = {"person": "a person", "controller": "a controller", "package": "a package"}
    name = one_line(who["name"], 80) or kinds.get(who["kind"], "unknown")
    sure = f" ({who['kind']}, {who['sure']})" if who["kind"] != "unknown" else ""
    at = f", {stamp(who['at'])}" if who["at"] is not None else ""
    evidence = f": {one_line(who['evidence'], 200)}" if who["evidence"] else ""
    return f"{name}{sure}{at}{evidence}"


def finding_text(one: dict[str, Any]) -> str:
    lines = _brief(one) + _commands(one["advice"], recommended=False)
    if one["diff"]:
        lines += ["", clean(one["diff"]).rstrip("\n")]
    return "\n".join(lines)


def list_text(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no audits yet\nhint: `hermes drift run REPO` runs one"
    cells = [
        (row["id"], stamp(row["at"]), row["commit"][:10], *(str(row[key]) for key in CALLED),
         str(row["troubles"]), one_line(row["repository"], 100))
        for row in rows
    ]  # fmt: skip
    heads = ("audit", "when", "commit", *CALLED.values(), "not checked", "repository")
    return table(heads, cells)


def pattern_text(pattern: dict[str, Any]) -> str:
    by = [f"{name} {', '.join(pattern[name])}" for name in ("kind", "manager") if pattern[name]]
    where = f"{', '.join(pattern['object'])}: {', '.join(pattern['field'])}"
    who = f", changed by {' '.join(by)}" if by else ""
    lines = [f"{pattern['says']}: {pattern['scope']} {clean(where)}{clean(who)}"]
    if pattern["says"] == "accepted":
        most = CALLED[pattern["covers"]]
        lines.append(f"later audits treat it as harmless, unless it is rated worse than {most!r}")
    else:
        lines.append("later audits do not treat it as harmless")
    return "\n".join(lines)
