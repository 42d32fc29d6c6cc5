"""A pull that brought a worse program, and a copy that broke off."""

import re
from collections.abc import Callable
from shlex import quote

from hermes_agent.incidents.drills import harbour, parish, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

GIT = "git -c user.name=Ines -c user.email=ines@harbour.example -c safe.directory='*'"
WORSE = (
    ("(self.folder / key).write_text(text)", "(self.folder / key[:2] / key).write_text(text)"),
    ('Path(own["parcels.dir"])', 'Path(own["parcels.directory"])'),
    ("import urllib.request\n", "import urllib.request\nimport parcelstore\n"),
    ("        self.folder = Path(", "        self.folder = PurePath("),
)
"""A line of the program, and what became of it."""


def pulled(pick: Pick) -> Scene:
    """As `working-copy`: three commits of colleagues came from the office's repository, on an app
    with properties; the one that changed the program is not the last."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    home, origin = f"{harbour.home_of(main)}/app", f"/srv/git/{main}.git"
    text, (good, bad) = tiers.program_text("parcels.py"), pick.choice(WORSE)
    if good not in text:
        raise ValueError(f"the program has no line {good!r}")
    title = pick.choice(("Use the quicker writer", "Simplify the store", "Prepare for Python 3.13"))
    kept, log = harbour.parcels(main, pick), f"{harbour.home_of(main)}/logs/update.log"
    desk = "/root/desk"

    def inject(box: Box) -> None:
        box.run(f"git clone -q {origin} {desk}; cd {desk}; echo '- see the wiki' >> README.md; "
                f"{GIT} commit -qam 'Point to the wiki'")  # fmt: skip
        box.write(f"{desk}/parcels.py", text.replace(good, bad))
        box.run(f"cd {desk} && {GIT} commit -qam {quote(title)}; echo 'Ines, Per' > AUTHORS; "
                f"git add AUTHORS; {GIT} commit -qm 'Add AUTHORS'")  # fmt: skip
        box.run(f"cd {desk} && git push -q; rm -r {desk}")
        box.run(f"cd {home} && (date '+== %F %T update'; git pull --no-rebase) >> {log} 2>&1; "
                f"supervisorctl restart {main}; sleep 0.5", check=False)  # fmt: skip

    world = tiers.joined(
        [harbour.app(main, port, start_seconds=1), harbour.app(other, other_port)],
        files={
            **kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick),
            f"{home}/README.md": File(f"# {main}\n\nParcels for the harbour.\n", age=tiers.MONTH),
            log: File("== 2026-10-02 08:11:40 update\nAlready up to date.\n", age=4e6),
        },
        setup=[
            f"git init -q --bare -b main {origin}; cd {home} && git init -q -b main && git add -A",
            f"cd {home} && {GIT} commit -qm 'As delivered' && git remote add origin {origin}",
            f"cd {home} && git push -q -u origin main",
        ],
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=lambda probe: said(harbour.stores(probe, port)),
        truth=Truth(
            (main,), ("bad-deploy",), rf"{home}|parcels\.py|{title}|commit|HEAD",
            rf"{title}|ParcelController.*FileNotFound|KeyError|ModuleNotFoundError|NameError|Fast-forward|"
            rf"{re.escape(bad.strip().splitlines()[-1])}",
        ),
        inject=inject,
        fix=(f"cd {home} && git checkout -q ORIG_HEAD", f"supervisorctl restart {main}",
             "sleep 0.5"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main} || true"],
            "pulled once more": [f"cd {home} && git pull", f"supervisorctl restart {main} || true"],
            "only the last commit": [f"cd {home} && git checkout -q HEAD~1",
                                     f"supervisorctl restart {main} || true"],
        },
        stays=(*kept, harbour.settings_of(main), harbour.settings_of(other)),
        harm=lambda probe: said(harbour.stores(probe, other_port)),
    )  # fmt: skip


def _break_off(main: str, cut: str, last: str, log: str, pid: int) -> Callable[[Box], None]:
    """The copy that rsync makes, its log, and a restart."""
    code = parish.code_of(main)
    words = (
        "receiving file list", f">f.st...... {main}/binderd.py",
        f"rsync: connection unexpectedly closed ({len(cut)} bytes received so far) [receiver]",
        "rsync error: error in rsync protocol data stream (code 12) at io.c(231) [receiver]",
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"mkdir -p {last} && cp -p {code} {last}/")
        box.write(code, cut)
        for told in words:
            box.run(f"echo \"$(date '+%Y/%m/%d %T') [{pid}] \"{quote(told)} >> {log}")
        box.run(f"supervisorctl restart {main}; sleep 0.5", check=False)

    return inject


def broken_off(pick: Pick) -> Scene:
    """As `half-copied`: rsync wrote the office's new program over the old one and was cut off; what
    was there is in the folder for copies of that day, as rsync leaves it."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    text, number = tiers.program_text("binder.py"), pick.size(3, 8)
    old, new = f"2.{number}", f"2.{number + 1}"
    before, after = (f'"""binderd {one}: papers' for one in (old, new))
    whole = text.replace('"""binderd: papers', before)
    longer = text.replace('"""binderd: papers', after)
    cut = longer[: longer.index("    def status(") + pick.size(60, 330)]
    code, log = parish.code_of(main), "/var/log/parish/rsync.log"
    copies = f"/var/backups/{pick.choice(('rsync', 'parish', 'replaced'))}"
    last, kept = f"{copies}/2026-11-{pick.size(10, 15)}/{main}", parish.papers(main, pick)
    world = tiers.joined(
        [parish.binder(main, port, code=whole, start_seconds=1),
         parish.binder(other, other_port, code=whole)],
        files={
            **kept, **parish.former(main, pick), **parish.former(other, pick),
            log: File("2026/08/19 07:30:12 [311] sent 214 bytes  received 8102 bytes\n", age=7e6),
            f"{copies}/2026-08-19/{main}/binderd.py": File(
                "raise SystemExit('binderd 1.x has reached its end of life')\n", age=7e6),
        },
        folders={copies: 0o755},
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        tail = probe.text(code).rstrip().endswith("run()")
        return said(parish.files(probe, port), "" if tail else f"{code} is not whole")

    return Scene(
        world=world,
        check=parish.ready(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("bad-deploy",), rf"binderd\.py|{parish.CODE}/{main}|rsync|{new}",
            r"SyntaxError|was never closed|IndentationError|unexpected EOF|expected '|expected an|"
            r"unterminated|rsync error|connection unexpectedly closed",
        ),
        inject=_break_off(main, cut, last, log, pick.size(400, 900)),
        fix=(f"cp -p {last}/binderd.py {code}", f"supervisorctl restart {main}", "sleep 0.5"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main} {other}"],
            "the oldest copy": [f"cp {copies}/2026-08-19/{main}/binderd.py {code}",
                                f"supervisorctl restart {main}; sleep 0.3"],
            "the last line goes": [f"sed -i '$d' {code}", f"supervisorctl restart {main}; sleep 1"],
        },
        stays=(*kept, parish.settings_of(main), parish.settings_of(other), parish.code_of(other)),
        harm=lambda probe: said(parish.files(probe, other_port)),
    )  # fmt: skip
