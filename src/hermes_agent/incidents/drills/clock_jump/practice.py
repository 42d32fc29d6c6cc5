"""Another time by other ways: a setting of the service itself, and the command that starts it."""

import re

from hermes_agent.incidents.drills import tiers, troves
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene
from hermes_agent.incidents.drills.world import Truth


def _two(pick: Pick) -> tuple[troves.House, troves.House, str]:
    """Who asks, who keeps, and what both sign with."""
    front, store = pick.services(2)
    ports = pick.ports(2)
    return troves.house(pick, front, ports[0]), troves.house(pick, store, ports[1]), pick.token(20)


def _off(probe: Probe, *paths: str) -> list[str]:
    """Files that still hold another time."""
    pattern = r"(?im)^[^#]*(?:faketime|clock_offset[\"']?\s*[=:]\s*[\"']?[+-]?[1-9])"
    return [f"{path} has another time" for path in paths if re.search(pattern, probe.text(path))]


def own_setting(pick: Pick) -> Scene:
    """One of two was given an offset that was meant for tests."""
    asks, keeps, key = _two(pick)
    hit = pick.choice((asks, keeps))
    shift = pick.choice("+-") + str(pick.size(2, 90) * 1800)
    own = {"shared_key": key, "clock_offset": 0, "max_skew": pick.choice((30, 60, 300))}
    kept = troves.entries(keeps, pick)

    def inject(box: Box) -> None:
        change = f"s/(clock_offset[\"']?[ =:]+[\"']?)0/\\1{shift.removeprefix('+')}/I"
        box.run(f"sed -i -E '{change}' {hit.config}".replace("[\"']", '["\\x27]'))
        box.run(f"supervisorctl restart {hit.name}")
        box.wait(f"tcp:{hit.port}")

    return Scene(
        world=tiers.joined(
            [
                troves.trove(asks, {"backend": f"http://127.0.0.1:{keeps.port}", **own},
                             needs=[keeps.name]),
                troves.trove(keeps, own),
            ],
            files=kept,
            hostname=pick.host(),
        ),
        check=troves.is_up(asks.name, asks.port),
        healthy=lambda probe: [
            *troves.keeps(probe, asks.port), *_off(probe, asks.config, keeps.config),
        ],
        truth=Truth(
            (hit.name,), ("clock-jump",), re.escape(hit.config), r"clock_offset|our time|OFFSET"
        ),
        inject=inject,
        fix=(f"sed -i -E 's/(clock_offset.*[^0-9])[0-9]+/\\10/I; s/-0/0/' {hit.config}",
             f"supervisorctl restart {hit.name}"),
        wrong={
            "restarting": [f"supervisorctl restart {asks.name} {keeps.name}"],
            "tolerating it": [
                f"sed -i -E 's/(max_skew.*[^0-9])[0-9]+/\\199999999/I' {keeps.config}",
                f"supervisorctl restart {keeps.name}",
            ],
        },
        stays=tuple(kept),
    )  # fmt: skip


def in_command(pick: Pick) -> Scene:
    """The command that starts one of two gives it another time."""
    asks, keeps, key = _two(pick)
    hit = pick.choice((asks, keeps))
    shift = f"{pick.choice('+-')}{pick.size(2, 90)}{pick.choice('dh')}"
    own = {"shared_key": key}
    kept = troves.entries(keeps, pick)
    entry = f"/etc/supervisor/conf.d/{hit.name}.conf"
    words = f"env LD_PRELOAD={find('faketime')} FAKETIME={shift}"

    def inject(box: Box) -> None:
        box.run(f"sed -i 's#python3 #{words} &#' {entry}; supervisorctl update")
        box.wait(f"tcp:{hit.port}")

    return Scene(
        world=tiers.joined(
            [
                troves.trove(asks, {"backend": f"http://127.0.0.1:{keeps.port}", **own},
                             needs=[keeps.name]),
                troves.trove(keeps, own),
            ],
            files=kept,
            hostname=pick.host(),
        ),
        check=troves.is_up(asks.name, asks.port),
        healthy=lambda probe: [*troves.keeps(probe, asks.port), *_off(probe, entry)],
        truth=Truth((hit.name,), ("clock-jump",), re.escape(entry), r"FAKETIME|our time|[Dd]ate: "),
        inject=inject,
        fix=(f"sed -i 's#{words} ##' {entry}", "supervisorctl update"),
        wrong={
            "restarting": [f"supervisorctl restart {asks.name} {keeps.name}"],
            "without signatures": [f"sed -i '/shared_key/d' {keeps.config}",
                                   f"supervisorctl restart {keeps.name}"],
        },
        stays=(asks.config, keeps.config, *kept),
    )  # fmt: skip
