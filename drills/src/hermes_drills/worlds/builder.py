"""Puts a world together, one service after the other, in the way of its style."""

from collections.abc import Mapping
from shlex import quote
from typing import Any

from hermes_drills.pick import Pick
from hermes_drills.services import source
from hermes_drills.types import MONTH, File, Job, Mount, Service, Style, World
from hermes_drills.worlds import checks, inits, styles
from hermes_drills.worlds.formats import rendered

MINUTE_SECONDS = 1.0
"""How long a minute of a box's cron lasts."""
_JOB = """\
#!/bin/sh
# Makes {product} from what {name} keeps.
lock={lock}
if [ -e "$lock" ]; then
    echo "$(date '+%F %T') {name}: an earlier run ($(cat "$lock")) is still at work" >>{log}
    exit 1
fi
trap 'rm -f "$lock"' EXIT
trap 'exit 1' HUP INT TERM
echo $$ >"$lock"
by=hand up=$PPID
while [ "$up" -gt 1 ]; do
    grep -qz crond.py /proc/$up/cmdline && by=cron
    up=$(awk '/^PPid/ {{print $2}}' /proc/$up/status)
done
echo "rows of {name}, by $by at $(date +%s)" >{product}.new && mv {product}.new {product}
"""


class Builder:
    def __init__(self, stack: str, pick: Pick, style: Style) -> None:
        self.stack, self.pick, self.style = stack, pick, style
        self.services: list[Service] = []
        self.files: dict[str, File] = {}
        self.folders: dict[str, int] = {"/var/backups": 0o755}
        self.mounts: dict[str, Mount] = {"/var/log": Mount("/var/log", 24)}
        self.hosts: dict[str, str] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.jobs: list[Job] = []
        self.setup: list[str] = []
        self.needs: list[str] = []
        self.authority = ""

    def host(self, name: str) -> str:
        """A name that leads to an address of its own."""
        full = f"{name}.internal"
        self.hosts[full] = f"10.77.0.{len(self.hosts) + 2}"
        return full

    def secret(self, name: str, text: str) -> str:
        path = f"/etc/{name}/signing.key" if self.style.place == "etc" else f"/etc/{name}.key"
        self.files[path] = File(f"{text}\n", mode=0o600, age=MONTH)
        return path

    def app(
        self, name: str, role: Any, settings: Mapping[str, str], *,
        needs: tuple[str, ...] = (), program: str = "app.py", data: bool = False, port: int = 0,
        limits: Mapping[str, int] | None = None, mount_mb: int = 0,
    ) -> Service:  # fmt: skip
        """A service of ours, with its code, its configuration and its folders."""
        style, pick = self.style, self.pick
        version = pick.version()
        folder, link = styles.code_folder(style, name, version)
        config = styles.config_path(style, name)
        log = styles.log_path(style, name)
        own = {"name": name, "port": str(port)} if port else {"name": name, "port": "0"}
        if log:
            own["log"] = log
            self.folders[log.rpartition("/")[0]] = 0o755
        own["level"] = "info"
        own["history_limit"] = str(pick.size(4, 12))
        own["workers"] = str(pick.choice((4, 6, 8)))
        where = styles.data_path(style, name) if data else ""
        if where:
            self.folders[where] = 0o700
            own["data"] = where
            if mount_mb:
                self.mounts[where] = Mount(where, mount_mb, 1500)
        own |= settings
        self.settings[name] = own
        self._code(folder, link, version, program)
        self.files[config] = File(rendered(style.format, own), age=MONTH)
        service = Service(
            name=name, role=role, port=port, config=config,
            command=f"python3 -IS {link or folder}/{program} {config}",
            address=own.get("bind", "127.0.0.1"),
            log=log or inits.output_path(style.init, name),
            data=where, lock=own.get("lock", ""), secret=own.get("secret", ""),
            certificate=own.get("certificate", ""), release=link,
            directory=link or folder, needs=needs, limits=dict(limits or {}),
        )  # fmt: skip
        self.services.append(service)
        return service

    def _code(self, folder: str, link: str, version: str, program: str) -> None:
        names = {"app.py"} | {program}
        texts = {name: source(name).replace('VERSION = "1.0.0"', f'VERSION = "{version}"')
                 for name in names}  # fmt: skip
        if program != "app.py":  # a bare Python does not look beside its script
            texts[program] = texts[program].replace(
                "from app import", "sys.path.insert(0, os.path.dirname(__file__))\nfrom app import"
            )
        for name, text in texts.items():
            self.files[f"{folder}/{name}"] = File(text, age=MONTH)
        if link:
            self.files[link] = File(link=folder)
            older = f"{folder.rpartition('/')[0]}/{self._older(version)}"
            for name, text in texts.items():
                self.files[f"{older}/{name}"] = File(text, age=3 * MONTH)

    def _older(self, version: str) -> str:
        first, second, _ = version.split(".")
        return f"{int(first) - 1}.{second}.{self.pick.size(0, 9)}"

    def cron(self, names: list[str], owner: str) -> Service:
        """The daemon, and a job of each minute for each name."""
        self.files["/opt/lib/crond.py"] = File(source("crond.py"), age=MONTH)
        self.files["/etc/crontab"] = File("17 4 * * * root true\n", age=MONTH)
        for name in names:
            folder = styles.data_path(self.style, owner)
            product = f"{folder}/{name}.csv"
            script = f"/opt/{name}/run.sh" if self.style.place != "srv" else f"/srv/{name}/run.sh"
            job = Job(name, f"/etc/cron.d/{name}", script, product, f"/var/log/{name}.log",
                      f"/run/{name}.lock")  # fmt: skip
            text = _JOB.format(name=name, product=product, lock=job.lock, log=job.log)
            self.files[script] = File(text, mode=0o755, age=MONTH)
            self.files[job.table] = File(f"* * * * * root {script}\n", age=MONTH)
            self.setup.append(
                f'echo "rows of {name}, by cron at $(date +%s)" > {quote(product)}; '
                f": > {quote(job.log)}"
            )
            self.jobs.append(job)
        service = Service(
            name="cron", role="cron", user="root", autorestart=False, log="/var/log/cron.log",
            command="python3 -IS /opt/lib/crond.py",
            environment={"MINUTE_SECONDS": f"{MINUTE_SECONDS:g}"},
        )  # fmt: skip
        self.services.append(service)
        return service

    def bystander(self) -> None:
        """A service that has nothing to do with the rest, and was changed lately, rightly so."""
        name, port = self.pick.names(12)[-1], self.pick.ports(9)[-1]
        while any(one.name == name or one.port == port for one in self.services):
            name, port = self.pick.choice(self.pick.names(12)), self.pick.choice(self.pick.ports(9))
        self.app(name, "bystander", {}, data=True, port=port)
        config = self.services[-1].config
        before = rendered(self.style.format, {**self.settings[name], "workers": "2"})
        copy = styles.copy_path(self.style, config, name)
        self.files[copy] = File(before, age=MONTH)
        self.files[config] = File(self.files[config].text, age=3000.0)

    def noise(self) -> None:
        """What looks like trouble and is long over, and what is large and rightly so."""
        for service in self.services:
            if service.log.startswith(("/var/log", "/srv")) and self.pick.chance(0.5):
                path = quote(service.log)
                self.setup.append(
                    f"mkdir -p {quote(service.log.rpartition('/')[0])}; "
                    f"echo \"$(date -d '-2 days' '+%F %T') ERROR GET /ready: timed out\" >> {path}"
                )
        kept = [one for one in self.services if one.data]
        if kept:
            size = self.pick.size(200, 900) << 10
            self.files[f"{kept[0].data}/archive-2025"] = File(size=size, mode=0o600, age=9 * MONTH)

    def world(self, entry: str) -> World:
        self.bystander()
        self.noise()
        files = {**self.files, **checks.scripts()}
        return World(
            stack=self.stack, style=self.style, hostname=self.pick.host(), entry=entry,
            services=tuple(self.services), files=files, folders=self.folders,
            mounts=tuple(self.mounts.values()), hosts=self.hosts, settings=self.settings,
            jobs=tuple(self.jobs), setup=tuple(self.setup), authority=self.authority,
            needs=tuple(self.needs),
        )  # fmt: skip
