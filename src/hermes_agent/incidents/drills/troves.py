"""Services in houses that are not like each other: the same program with its settings in another
format, its files in other places and its log in other words each time."""

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part, program_text
from hermes_agent.incidents.drills.world import File, Program

FORMATS = ("toml", "json", "yaml", "properties", "env")
CONFIGS = (
    "/etc/{0}.{1}", "/etc/{0}/main.{1}", "/opt/{0}/etc/{0}.{1}", "/opt/{0}/conf/settings.{1}",
    "/srv/{0}/config/{0}.{1}", "/home/app/{0}/{0}.{1}",
)  # fmt: skip
CODES = ("/opt/{0}/bin/trove", "/srv/{0}/trove.py", "/app/{0}/trove.py")
STORES = ("/var/lib/{0}/entries", "/data/{0}", "/srv/{0}/store")
LOGS = ("/var/log/{0}.log", "/var/log/{0}/service.log", "/opt/{0}/logs/{0}.log", "-")
STYLES = ("json", "logfmt", "syslog", "epoch", "plain")


class House(Struct, frozen=True, kw_only=True):
    """Where one service has what."""

    name: str
    port: int
    config: str
    code: str
    store: str
    log: str
    style: str

    @property
    def format(self) -> str:
        return self.config.rpartition(".")[2]

    @property
    def said(self) -> str:
        """Where its log is read."""
        return f"/var/log/supervisor/{self.name}.log" if self.log == "-" else self.log


def house(pick: Pick, name: str, port: int, **fixed: str) -> House:
    kind = pick.choice(FORMATS)
    chosen = {
        "config": pick.choice(CONFIGS).format(name, kind),
        "code": pick.choice(CODES).format(name),
        "store": pick.choice(STORES).format(name),
        "log": pick.choice(LOGS).format(name),
        "style": pick.choice(STYLES),
    }
    return House(name=name, port=port, **{**chosen, **fixed})


def written(kind: str, settings: Mapping[str, object]) -> str:
    """Settings as a file of some format."""
    match kind:
        case "json":
            return json.dumps(settings, indent=2) + "\n"
        case "toml":
            return "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        case "yaml":
            return "---\n" + "".join(f"{name}: {value}\n" for name, value in settings.items())
        case "env":
            return "".join(f"{name.upper()}={value}\n" for name, value in settings.items())
        case _:
            return "".join(f"trove.{name}={value}\n" for name, value in settings.items())


def settings(house: House, more: Mapping[str, object] | None = None) -> dict[str, object]:
    own: dict[str, object] = {"listen": f"127.0.0.1:{house.port}"}
    if "backend" not in (more or {}):
        own["store"] = house.store
    return {**own, "log": house.log, "log_style": house.style, **(more or {})}


def trove(
    house: House,
    more: Mapping[str, object] | None = None,
    *,
    needs: Sequence[str] = (),
    command: str = "",
    environment: Mapping[str, str] | None = None,
    start_seconds: int = 0,
) -> Part:
    """A service that keeps entries, or asks another for them."""
    log = {} if house.log == "-" else {house.log.rpartition("/")[0]: 0o755}
    return Part(
        Program(
            name=house.name,
            command=command or f"python3 {house.code} {house.config}",
            directory=house.code.rpartition("/")[0],
            environment=dict(environment or {}),
            needs=tuple(needs),
            ready=f"tcp:{house.port}",
            start_seconds=start_seconds,
        ),
        {
            house.code: File(program_text("trove.py"), mode=0o755, age=MONTH),
            house.config: File(written(house.format, settings(house, more)), age=MONTH),
        },
        {house.store: 0o755, **log},
    )


def entries(house: House, pick: Pick, count: int = 8) -> dict[str, File]:
    """What people have kept there for long."""
    return {
        f"{house.store}/{pick.word()}-{pick.token(5)}": File(f"{pick.token(40)}\n", age=MONTH)
        for _ in range(count)
    }


def is_up(
    name: str, port: int, *, how: str = "", scheme: str = "http", host: str = ""
) -> WatchedCheck:
    """The check of whoever uses it: does it keep and give back."""
    url = f"{scheme}://{host or '127.0.0.1'}:{port}/up"
    run = f"curl -sS -m 4 {how} -w ' %{{http_code}}\\n' {url}".replace("  ", " ")
    return WatchedCheck(
        f"{name} up", Check(run, Expect(output="up.* 200|up\n 200"), timeout=8.0), name,
        severity="P1",
    )  # fmt: skip


def keeps(probe: Probe, *ports: int) -> list[str]:
    """Why one of them does not keep what it is given."""
    return [said for port in ports if (said := probe.keeps(port, "/v1"))]
