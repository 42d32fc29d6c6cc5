"""One of two services that sign by the clock got another clock: by its entry, or by a file that
its entry has always named."""

import time
from email.utils import parsedate_to_datetime

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Truth, World

TOLERANCE = 5.0


class Plan(tiers.Pair, frozen=True, kw_only=True):
    shift: str

    @property
    def at_fault(self) -> str:
        return self.front if self.variant == "asker" else self.store

    @property
    def offset_file(self) -> str:
        return f"/etc/{self.store}/clock-offset"


def plan(pick: Pick, variant: str) -> Plan:
    sign = {"ahead": "+", "behind": "-"}.get(variant) or pick.choice("+-")
    shift = f"{sign}{pick.size(2, 400)}{pick.choice('dh')}"
    return Plan(shift=shift, **tiers.pair(pick, variant))


def _preload() -> dict[str, str]:
    return {"LD_PRELOAD": find("faketime") or ""}


def world(plan: Plan) -> World:
    shifted = plan.variant == "shifted-file"
    clock = {"FAKETIME_TIMESTAMP_FILE": plan.offset_file, "FAKETIME_NO_CACHE": "1"}
    names = (plan.front, plan.store)
    return tiers.joined(
        tiers.pair_parts(
            plan,
            front={"secret": tiers.secret_of(plan.front)},
            store={"secret": tiers.secret_of(plan.store), "signed_only": "yes"},
            environment={**_preload(), **clock} if shifted else {"TZ": "Asia/Tokyo"},
        ),
        files={
            **tiers.kept_files(plan),
            **{tiers.secret_of(n): File(plan.secret, mode=0o600, age=tiers.MONTH) for n in names},
            **({plan.offset_file: File("+0\n", age=tiers.MONTH)} if shifted else {}),
        },
        hostname=plan.host,
        setup=tiers.old_lines(
            f"/var/log/{plan.front}/{plan.front}.log",
            {4000: f"ERROR GET /ready: http://127.0.0.1:{plan.store_port}: timed out"},
        ),
    )


def entry(name: str) -> str:
    return f"/etc/supervisor/conf.d/{name}.conf"


def inject(box: Box, plan: Plan) -> None:
    if plan.variant == "shifted-file":
        box.write(plan.offset_file, f"{plan.shift}\n")
        return
    shift = f'LD_PRELOAD="{find("faketime")}",FAKETIME="{plan.shift}"'
    path = entry(plan.at_fault)
    kept = [line for line in box.read(path).splitlines() if not line.startswith("environment=")]
    box.write(path, "\n".join([*kept, f"environment={shift}", ""]))
    box.run("supervisorctl update")
    box.wait(f"tcp:{plan.front_port if plan.variant == 'asker' else plan.store_port}")


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.front, plan.front_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    wrong = []
    if said := probe.keeps(plan.front_port):
        wrong.append(said)
    for name, port in ((plan.front, plan.front_port), (plan.store, plan.store_port)):
        reply = probe.http(port, "/healthz")
        if off := _off(reply.headers.get("Date", "")):
            wrong.append(f"the clock of {name} is {off}")
    return wrong


def _off(date: str) -> str:
    if not date:
        return "not told"
    off = parsedate_to_datetime(date).timestamp() - time.time()
    return f"off by {off:+.0f} s" if abs(off) > TOLERANCE else ""


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return {tiers.configured(name): probe.sha256(tiers.configured(name)) for name in
            (plan.front, plan.store)}  # fmt: skip


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    wrong = [*tiers.lost(probe, plan), *tiers.changed(probe, before)]
    if probe.http(plan.store_port, "/items/ready").status == 200:
        wrong.append(f"{plan.store} answers without a signature")
    return wrong


def truth(plan: Plan) -> Truth:
    place = plan.offset_file if plan.variant == "shifted-file" else entry(plan.at_fault)
    return Truth(
        component=(plan.at_fault,),
        category=("clock-jump",),
        locus=place,
        evidence=r"from now|FAKETIME|Date: |" + plan.shift[1:],
    )


def reference(plan: Plan) -> list[str]:
    if plan.variant == "shifted-file":
        return [f"echo +0 > {plan.offset_file}"]
    return [
        f"sed -i '/^environment=.*FAKETIME/d' {entry(plan.at_fault)}",
        "supervisorctl update",
    ]


def wrong(plan: Plan) -> dict[str, list[str]]:
    conf = tiers.configured(plan.store)
    return {
        "restarting": [f"supervisorctl restart {plan.store} {plan.front}"],
        "tolerating it": [
            f"echo 'tolerance = 1e12' >> {conf}", f"supervisorctl restart {plan.store}",
        ],
    }  # fmt: skip
