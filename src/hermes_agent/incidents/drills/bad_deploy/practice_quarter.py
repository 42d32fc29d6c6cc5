"""A release that moved the path which others still ask for."""

from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

DEPLOYS = "/var/www/deploys.log"


def _noted(text: str, days: int = 0) -> str:
    return f"echo \"$(date -d '-{days} days' '+%F %T')\" '{text}' >> {DEPLOYS}"


def _moved(path: str) -> str:
    """The program, with another path for its records."""
    text = tiers.program_text("clerk.py")
    worse = text.replace('RECORDS = "/api/records/"', f'RECORDS = "{path}"')
    if worse == text:
        raise ValueError("the program has no such line")
    return worse


def moved_path(pick: Pick) -> Scene:
    """The store's new release answers at another path; whoever asks it was not told."""
    (main, second, store), (port, second_port, inner, gate) = pick.services(3), pick.ports(4)
    old, new = "20260914", f"202611{pick.size(10, 15)}{pick.choice(('a', 'b', '-2'))}"
    asks = {"BACKEND_URL": f"http://127.0.0.1:{gate}"}
    path = pick.choice(("/api/v2/records/", "/v2/records/", "/api/entries/"))
    top, kept = f"{house.TOP}/{store}", house.records(store, pick)
    release = f"{top}/releases/{new}"
    world = tiers.joined(
        [
            house.app(store, inner, release=old),
            house.app(main, port, asks, needs=("nginx", store), release="20261109"),
            house.app(second, second_port, asks, needs=("nginx", store), release="20260901"),
            tiers.nginx({store: house.site(gate, f"http://127.0.0.1:{inner}")}, [store], gate),
        ],
        files={
            **kept, **house.weeks_ago(main, pick), **house.weeks_ago(store, pick),
            f"{release}/clerk.py": File(_moved(path), age=1500.0),
            f"{release}/pgline.py": File(tiers.program_text("pgline.py"), age=1500.0),
        },
        setup=[
            _noted(f"{store} {old} live", 63), _noted(f"{second} 20260901 live", 70),
            _noted(f"{main} 20261109 live", 7),
        ],
        hostname=pick.host(),
    )  # fmt: skip
    (key, file), *_ = kept.items()
    url = f"{house.RECORDS}/{key.rpartition('/')[2]}"

    def healthy(probe: Probe) -> list[str]:
        got = probe.http(port, url).text
        return said(
            house.serves(probe, port, second_port),
            "" if got.strip() == file.text.strip() else f"{url} is not to be had",
        )

    front = f"{house.TOP}/{main}/releases/20261109/clerk.py"
    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (store,), ("bad-deploy",), rf"{new}|{path.rstrip('/')}|{top}/(current|releases)",
            rf"{new}|{path.rstrip('/')}|/api/records/[\w-]+ HTTP/1\.[01]\" 404",
        ),
        inject=lines(
            f"ln -sfn releases/{new} {top}/current", _noted(f"{store} {new} live"),
            f"supervisorctl restart {store}; sleep 0.5",
        ),
        fix=(f"ln -sfn releases/{old} {top}/current", f"supervisorctl restart {store}; sleep 1"),
        wrong={
            "all are restarted": [f"supervisorctl restart {store} {main} {second} nginx; sleep 1"],
            "whoever asks is changed": [
                f"sed -i 's#^RECORDS = .*#RECORDS = \"{path}\"#' {front}",
                f"supervisorctl restart {main}; sleep 0.5",
            ],
        },
        stays=(*kept, house.env_of(main), house.env_of(store), f"{top}/releases/{old}/clerk.py"),
        runs=(f"{house.TOP}/{second}/",),
    )  # fmt: skip
