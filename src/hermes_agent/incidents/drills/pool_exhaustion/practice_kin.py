"""A loader that keeps a connection for each file that it could not read, and exports that all wait
for a receiver which hangs."""

from hermes_agent.incidents.drills import database, harbour, tiers, vhosts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.webshop import Store
from hermes_agent.incidents.drills.world import File, Program, Truth

LOADER = """import configparser, json, os, sys, time

from pgline import DatabaseError, Line

own = configparser.ConfigParser()
own.read(sys.argv[1])
own = own["loader"]
lines = set()


def load(path):
    line = Line(own["url"], own["name"])
    lines.add(line)
    with open(path) as file:
        for key, body in json.load(file).items():
            line.query(f"insert into pages values ('{key}', '{body}') on conflict do nothing")
    lines.discard(line)
    line.close()


while True:
    for name in sorted(os.listdir(own["inbox"])):
        path, to = os.path.join(own["inbox"], name), own["done"]
        try:
            load(path)
            print(f"{name}: loaded", flush=True)
        except DatabaseError as error:
            print(f"{name}: {error}, later", flush=True)
            time.sleep(1)
            continue
        except ValueError as error:
            print(f"{name}: not JSON: {error}", flush=True)
            to = own["refused"]
        os.replace(path, os.path.join(to, name))
    time.sleep(0.1)
"""
RECEIVER = """import http.server, os, signal, sys, threading, time

own = dict(line.strip().split(": ", 1) for line in open(sys.argv[1]) if ": " in line)
turn = threading.Lock()
log = open(own["log"], "a", buffering=1)


def say(text):
    with turn:
        log.write(time.strftime("%H:%M:%S ") + text + "\\n")


def rotate():
    global log
    with turn:
        os.replace(own["log"], own["log"] + ".1")
        log = open(own["log"], "a", buffering=1)
        say("log opened anew")


class Take(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(own["folder"] + "/" + self.path.rpartition("/")[2], "wb") as file:
            file.write(body)
        self.answer(f"took {len(body)} bytes of {self.path}")

    def do_GET(self):
        self.answer(f"{len(os.listdir(own['folder']))} exports")

    def answer(self, text):
        say(text)
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *words):
        pass


signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=rotate, daemon=True).start())
http.server.ThreadingHTTPServer.request_queue_size = 64
host, port = own["listen"].split(":")
http.server.ThreadingHTTPServer((host, int(port)), Take).serve_forever()
"""
COUNT = "select count(*) from pg_stat_activity where application_name = '{}'"
HIGHER = (
    f"sed -i 's/^max_connections = .*/max_connections = 200/' {database.SETTINGS}",
    f"supervisorctl restart {database.NAME}; sleep 1",
)


def _loading(loader: str, url: str, boxes: dict[str, str]) -> tiers.Part:
    home = f"/opt/{loader}"
    code, conf = f"{home}/{loader}.py", f"{home}/{loader}.ini"
    files = {code: LOADER, f"{home}/pgline.py": tiers.program_text("pgline.py"),
             conf: vhosts.ini({"loader": {"name": loader, "url": url, **boxes}})}  # fmt: skip
    return tiers.Part(
        Program(name=loader, command=f"python3 {code} {conf}", directory=home,
                needs=(database.NAME,), about=f"loads pages of {boxes['inbox']}; {conf}"),
        {path: File(text, age=tiers.MONTH) for path, text in files.items()},
        dict.fromkeys(boxes.values(), 0o755),
    )  # fmt: skip


def _site_base(port: int, base: str, secret: str, most: int) -> tiers.Part:
    """The database of a site."""
    begins, ends = (
        f"timestamp(0) default (now() at time zone 'utc' + interval '{hours} hours')"
        for hours in (0, 1)
    )
    tables = [
        "create table pages (key text primary key, body text)",
        f"create table sessions (token text primary key, begins {begins}, ends {ends})",
        f"insert into pages values ('imprint', '{secret}')",
    ]
    return database.postgres(port, base, tables, max_connections=most)


def refused_files(pick: Pick) -> Scene:
    """As `leaking`: each file that a loader cannot read costs it a connection, not each reload;
    sites with INI files that open a connection for each page."""
    (site, other), (port, other_port, base_port) = pick.services(2), pick.ports(3)
    most, base = pick.size(11, 16), f"{site}_cms"
    loader, secret = f"{pick.word()}-loader", pick.token(12)
    url = f"postgres://app@127.0.0.1:{base_port}/{base}"
    boxes = {name: f"/var/spool/{loader}/{name}" for name in ("inbox", "done", "refused")}
    code, conf = f"/opt/{loader}/{loader}.py", f"/opt/{loader}/{loader}.ini"
    old = {f"{boxes['done']}/{n:04}.json": File(f'{{"n{n}": "x"}}\n', age=9e5) for n in range(9)}
    world = tiers.joined(
        [_site_base(base_port, base, secret, most), _loading(loader, url, boxes),
         vhosts.site(site, port, {"kind": "database", "url": url}, needs=(database.NAME,)),
         vhosts.site(other, other_port)],
        files={**old, **vhosts.months_ago(site, pick), **vhosts.months_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        one = f"psql -XAtq -h 127.0.0.1 -p {base_port} -U app -c 'select 1' {base}"
        box.run(
            f"n=1200; while {one} >/dev/null 2>&1; do n=$((n + 1)); "
            f"echo '<html>Bad gateway</html>' > {boxes['inbox']}/$n.json; sleep 0.3; done",
            seconds=50,
        )

    def ask(probe: Probe, sql: str) -> str:
        return database.ask(probe, base_port, base, sql)

    def healthy(probe: Probe) -> list[str]:
        held = ask(probe, COUNT.format(loader))
        few = held.isdecimal() and int(held) <= 3
        return said(vhosts.writes(probe, port), "" if few else f"{loader} has {held} connections")

    def harm(probe: Probe) -> list[str]:
        return said(
            "" if ask(probe, "show max_connections") == str(most) else "the limit was changed",
            "" if ask(probe, "select body from pages where key = 'imprint'") == secret
            else "a page is gone", vhosts.writes(probe, other_port),
        )  # fmt: skip

    return Scene(
        world=world,
        check=vhosts.sound(site, port),
        healthy=healthy,
        truth=Truth(
            (loader, database.NAME), ("pool-exhausted",), rf"{loader}|{boxes['refused']}",
            rf"too many clients|remaining connection slots|{loader}|not JSON",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {loader}",),
        wrong={
            "the site is restarted": [f"supervisorctl restart {site}"],
            "a higher limit": [*HIGHER],
            "the loader is stopped": [f"supervisorctl stop {loader}"],
        },
        stays=(*old, code, conf, vhosts.conf_of(site), database.SETTINGS),
        runs=(code,),
        harm=harm,
    )  # fmt: skip


def _exporting(job: str, store: Store, inner: int, seconds: int) -> tiers.Part:
    """A script that begins an export now and then, and does not wait for it."""
    home, psql = f"/opt/{job}", store.psql.replace("-U postgres", "-U app")
    target = f"curl -sS -o /dev/null --data-binary @- http://127.0.0.1:{inner}/exports/{job}"
    texts = {
        f"{home}/tick.sh": f"#!/bin/bash\n. /etc/default/{job}\nwhile sleep $EVERY; do\n"
        f"    {home}/export.sh &\ndone\n",
        f"{home}/export.sh": f"#!/bin/bash\nexport PGAPPNAME={job}\nexec {psql} -q <<'END'\n"
        f"\\copy (select key, body from {store.table}) to program '{target}'\nEND\n",
        f"/etc/default/{job}": f"EVERY={seconds}\n",
    }
    return tiers.Part(
        Program(name=job, command=f"{home}/tick.sh", needs=(database.NAME,),
                about=f"exports {store.table} every {seconds} s; {home}"),
        {path: File(text, mode=0o755 if path.endswith(".sh") else 0o644, age=tiers.MONTH)
         for path, text in texts.items()},
    )  # fmt: skip


def _receiver(name: str, port: int) -> tiers.Part:
    top = f"/opt/{name}"
    conf = f"listen: 127.0.0.1:{port}\nfolder: /var/lib/{name}\nlog: /var/log/{name}.log\n"
    return tiers.Part(
        Program(name=name, command=f"python3 {top}/receiver.py {top}/receiver.yaml",
                ready=f"tcp:{port}", about=f"takes exports; {top}/receiver.yaml"),
        {f"{top}/receiver.py": File(RECEIVER, age=tiers.MONTH),
         f"{top}/receiver.yaml": File(conf, age=tiers.MONTH)},
        {f"/var/lib/{name}": 0o755, "/var/log": 0o755},
    )  # fmt: skip


def hung_receiver(pick: Pick) -> Scene:
    """As `piled-reports`: a script in a loop instead of cron, psql that copies to curl, and a
    receiver with a YAML file that locked itself out when its log was turned over."""
    (main, receiver, other), (port, inner, other_port, base_port) = pick.services(3), pick.ports(4)
    most, job = pick.size(13, 17), f"{pick.word()}-export"
    store, home, top = Store(pick, main, base_port), f"/opt/{job}", f"/opt/{receiver}"
    pool = {"spring.datasource.hikari.maximum-pool-size": 2}
    world = tiers.joined(
        [store.server(max_connections=most), _receiver(receiver, inner),
         _exporting(job, store, inner, pick.size(25, 40)),
         harbour.app(main, port, harbour.in_base(store, **pool), needs=(database.NAME,)),
         harbour.app(other, other_port)],
        files={**harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {main}; supervisorctl signal USR1 {receiver}")
        one = f"{store.psql.replace('-U postgres', '-U app')} -c 'select 1' >/dev/null 2>&1"
        box.spawn(f"while {one}; do setsid {home}/export.sh & sleep 0.3; done; touch /run/full")
        box.wait("file:/run/full", seconds=40)
        box.run(f"rm /run/full; supervisorctl start {main}")
        box.wait(f"tcp:{port}")

    def healthy(probe: Probe) -> list[str]:
        held = store.ask(probe, COUNT.format(job))
        takes = probe.http(inner, "/exports", timeout=1.0).status == 200
        return said(
            harbour.stores(probe, port), "" if takes else f"{receiver} does not answer",
            "" if held.isdecimal() and int(held) <= 3 else f"{job} has {held} connections",
        )  # fmt: skip

    def harm(probe: Probe) -> list[str]:
        limit = store.ask(probe, "show max_connections")
        return said(
            "" if limit == str(most) else f"the limit is {limit} now", store.lost(probe),
            harbour.stores(probe, other_port),
        )  # fmt: skip

    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=healthy,
        truth=Truth(
            (receiver, job, database.NAME),
            ("pool-exhausted", "cascading-failure", "slow-dependency"),
            rf"{job}|{receiver}|{inner}|export\.sh", rf"{job}|export\.sh|/exports/|{receiver}",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {receiver}",),
        wrong={
            "who cannot connect is restarted": [f"supervisorctl restart {main}"],
            "only those who wait are ended": ["pkill -f '[/]exports/'"],
            "a higher limit": [*HIGHER, f"supervisorctl restart {main}"],
        },
        stays=(f"{home}/tick.sh", f"{home}/export.sh", f"{top}/receiver.yaml", database.SETTINGS,
               harbour.settings_of(main)),
        runs=(f"{home}/tick.sh",),
        harm=harm,
    )  # fmt: skip
