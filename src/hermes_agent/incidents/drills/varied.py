"""Houses that do not look alike: the same small service with settings in any format and place, logs
in any form and place, copies by any name. What is practised in them does not lean on one house."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import layout, parts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.tiers import MONTH, program_text
from hermes_agent.incidents.drills.world import File, Program

PREFIX = "/docs"
SHAPES = ("json", "yaml", "toml", "env", "properties", "flags", "environment")
PLACES = ("/etc/{}/config", "/etc/{}", "/srv/{}/config/app", "/opt/{}/settings", "/opt/{}/conf/{}")
LOGS = (
    "/var/log/{}.log", "/srv/{}/logs/current", "/var/log/{}/service.out", "/srv/{}/log/all.jsonl",
    "",
)  # fmt: skip
COPIES = (".orig", "~", ".2026-10-30", "-before", ".dist")
KEYS = {
    "port": ("port", "listen_port", "http_port"),
    "data": ("data_dir", "storage_path", "root"),
    "log": ("log_file", "logfile", "log_path"),
    "level": ("log_level", "verbosity", "level"),
}


class House(Struct, frozen=True):
    name: str
    port: int
    shape: str
    config: str
    """Empty where the supervisor's entry has all."""
    data: str
    log: str
    style: str
    names: Mapping[str, str]
    copy: str
    top: str
    settings: Mapping[str, object] = {}
    more: str = ""
    """What its program has beyond the usual, as text of Python."""
    limits: Mapping[str, int] = {}
    needs: tuple[str, ...] = ()
    about: str = ""

    @property
    def file(self) -> str:
        """The file that has its settings."""
        return self.config or self.entry

    @property
    def entry(self) -> str:
        return f"/etc/supervisor/conf.d/{self.name}.conf"

    @property
    def code(self) -> str:
        return f"{self.top}/{self.name}/docshelf.py"

    @property
    def wrapper(self) -> str:
        return f"{self.top}/{self.name}/start.sh"

    @property
    def own(self) -> dict[str, object]:
        """All settings, by the names that this house has for them."""
        given: dict[str, object] = {"port": self.port, "data": self.data, "log_style": self.style}
        given |= {"log": self.log} if self.log else {}
        given |= self.settings
        return {self.names.get(key, key): value for key, value in given.items()}

    def where(self, key: str) -> str:
        """What a setting is called here."""
        return self.names.get(key, key)

    @property
    def text(self) -> str:
        """Its settings in a file."""
        own = self.own
        if self.shape == "json":
            return json.dumps({"service": self.name, "options": own}, indent=2) + "\n"
        if self.shape == "yaml":
            inner = "".join(f"  {key}: {value}\n" for key, value in own.items())
            return f"# {self.name}\noptions:\n{inner}"
        if self.shape == "toml":
            return "[options]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in own.items())
        if self.shape == "env":
            return "".join(f'export SHELF_{k.upper()}="{v}"\n' for k, v in own.items())
        return "".join(f"{self.name}.{key}={value}\n" for key, value in own.items())

    @property
    def program(self) -> Program:
        words = f"python3 {self.code}"
        environment: dict[str, str] = {"MALLOC_ARENA_MAX": "1"}
        match self.shape:
            case "flags":
                flags = (f"--{k.replace('_', '-')}={v}" for k, v in self.own.items())
                words = f"{words} {' '.join(flags)}"
            case "environment":
                environment |= {f"SHELF_{k.upper()}": str(v) for k, v in self.own.items()}
            case "env":
                words = f"bash {self.wrapper}"
            case _:
                words = f"{words} {self.config}"
        return Program(
            name=self.name, command=words, directory=f"{self.top}/{self.name}",
            environment=environment, limits=self.limits, needs=self.needs,
            about=self.about or "a shelf of documents", ready=f"tcp:{self.port}",
        )  # fmt: skip

    @property
    def part(self) -> parts.Part:
        usual, _, ended = program_text("docshelf.py").partition('\nif __name__ == "__main__":')
        code = usual + (self.more or f'\nif __name__ == "__main__":{ended}')
        files = {self.code: File(code, mode=0o755, age=MONTH)}
        if self.config:
            files[self.config] = File(self.text, age=MONTH)
        if self.shape == "env":
            start = f"#!/bin/bash\n. {self.config}\nexec python3 {self.code}\n"
            files[self.wrapper] = File(start, mode=0o755, age=MONTH)
        folders = {self.data: 0o755}
        if self.log:
            folders[str(Path(self.log).parent)] = 0o755
        return parts.Part((self.program,), files, folders)

    def docs(self, pick: Pick, count: int = 12) -> dict[str, File]:
        """What people put there long ago."""
        return {
            f"{self.data}/doc-{pick.token()}": File(f"{pick.token(30)}\n", age=7e5)
            for _ in range(count)
        }

    def changed(self, **settings: object) -> "House":
        return replace(self, settings={**self.settings, **settings})

    def change(self, new: "House", *, keep: bool = True) -> Callable[[Box], None]:
        """Somebody changes its settings; a copy of what was is kept, or not."""

        def inject(box: Box) -> None:
            if keep:
                box.run(f"cp -p {self.file} {self.file}{self.copy}")
            box.write(self.file, new.text if self.config else layout.entry(new.program))
            box.run("supervisorctl reread; supervisorctl update", check=False)
            box.run(f"supervisorctl restart {self.name}")
            box.wait(f"tcp:{self.port}")

        return inject

    @property
    def restore(self) -> tuple[str, ...]:
        """What puts its settings back, whether a copy was kept or not."""
        text = self.text if self.config else layout.entry(self.program)
        return (
            f"cat > {self.file} <<'END'\n{text}END",
            f"supervisorctl reread; supervisorctl update; supervisorctl restart {self.name}",
        )

    @property
    def check(self) -> WatchedCheck:
        """Whoever uses it puts something there and reads it."""
        base = f"http://127.0.0.1:{self.port}{PREFIX}/probe"
        run = (
            f'v=$(date +%s%N); curl -sS -m 3 -X PUT --data "$v" {base} && '
            f'test "$(curl -sS -m 3 {base})" = "$v" && echo written and read'
        )
        expect = Expect(output="written and read")
        return WatchedCheck(f"{self.name} put", Check(run, expect, timeout=9.0), self.name, "P1")


def house(
    pick: Pick, name: str, port: int, *, data: str = "", shapes: tuple[str, ...] = SHAPES
) -> House:
    shape = pick.choice(shapes)
    place = pick.choice(PLACES)
    ending = {"env": "env", "properties": "properties"}.get(shape, shape)
    config = f"{place.replace('{}', name)}.{ending}" if shape in SHAPES[:5] else ""
    return House(
        name=name,
        port=port,
        shape=shape,
        config=config,
        data=data or pick.choice(("/srv/{}/docs", "/var/lib/{}", "/mnt/{}-docs")).format(name),
        log=pick.choice(LOGS).format(name),
        style=pick.choice(("json", "logfmt", "syslog", "epoch")),
        names={key: pick.choice(names) for key, names in KEYS.items()},
        copy=pick.choice(COPIES),
        top=pick.choice(("/srv", "/opt", "/app")),
    )


FRONT = """

class Front(Shelf):
    def put(self, key: str, body: bytes) -> tuple[int, bytes]:
        return self.ask("PUT", key, body)

    def get(self, key: str, body: bytes) -> tuple[int, bytes]:
        return self.ask("GET", key, b"")

    def ask(self, method: str, key: str, body: bytes) -> tuple[int, bytes]:
        import http.client
        host, _, port = self.own["behind"].rpartition(":")
        line = http.client.HTTPConnection(host, int(port), timeout=1.5)
        try:
            line.request(method, f"/docs/{key}", body)
            answer = line.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(f"nothing came from behind: {type(error).__name__}") from None
        finally:
            line.close()
        if answer.status >= 500:
            raise RuntimeError(f"behind us: {answer.status}")
        return answer.status, text


serve(Front)
"""
"""A service that has nothing of its own and asks the one behind it."""


def front(pick: Pick, name: str, port: int, behind: House) -> House:
    """A house that asks another."""
    home = replace(house(pick, name, port), more=FRONT, needs=(behind.name,))
    return home.changed(behind=f"127.0.0.1:{behind.port}")
