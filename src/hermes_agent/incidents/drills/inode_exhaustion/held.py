"""Small files that nobody clears away: visits to a kiosk, and pieces of pages that were drawn."""

import json

from hermes_agent.incidents.drills import kiosk, tiers
from hermes_agent.incidents.drills import workshop as shop
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.inode_exhaustion.practice_quarter import _tight
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

VISITS = """
const visited = request => /visit=([\\w-]{24})/.exec(request.headers.cookie || '')

// Who comes without a cookie is new: store.path has a file for each of them.
function remember (request, response) {
  if (!own.store || request.url === '/status' || visited(request)) return
  const id = crypto.randomBytes(18).toString('base64url')
  const told = { cookie: { originalMaxAge: own.store.maxAge, path: '/' }, __lastAccess: Date.now() }
  try {
    fs.writeFileSync(path.join(own.store.path, id + '.json'), JSON.stringify(told))
    response.setHeader('Set-Cookie', 'visit=' + id)
  } catch (error) {
    log(40, '[session-file-store] will not retry: ' + error.message)
  }
}

function serve (request, response) {
  remember(request, response)
"""
COME_AND_GONE = """python3 - <<'END'
import base64, hashlib, itertools, json, os, time
for number in itertools.count():
    made = hashlib.sha256(f"{salt}{{number}}".encode()).digest()[:18]
    path = f"{place}/{{base64.urlsafe_b64encode(made).decode()}}.json"
    then = time.time() - 86400 * 2 - number * 1300
    told = {{"cookie": {{"originalMaxAge": {age}, "path": "/"}}, "__lastAccess": int(then * 1000)}}
    try:
        with open(path, "x") as file:
            file.write(json.dumps(told, separators=(",", ":")))
    except OSError:
        break
    os.utime(path, (then, then))
END"""
PIECES = """python3 - <<'END'
import itertools, os, time
for number in itertools.count():
    key = f"views/records/{{number * 7 % 4093}}-{{1788000000 + number * 37}}/row"
    name = key.replace("/", "%2F")
    folder = f"{cache}/{{sum(name.encode()) % 16:X}}"
    path = f"{{folder}}/{{name}}"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "x") as file:
            file.write(f"<tr><td>{{number}}</td></tr>\\n")
    except OSError:
        break
    then = time.time() - 3600 - number * 420
    os.utime(path, (then, then))
END"""
DRAWN = (
    (
        "    def log_message(self",
        '''    def row(self, key: str, body: str) -> str:
        """As a row of a table, drawn once: below CACHE_DIR, for good."""
        stamp = self.server.store.run("select changed from records where key = ?", key)[0][0]
        name = f"views/records/{key}-{stamp:.0f}/row".replace("/", "%2F")
        drawn = Path(os.environ["CACHE_DIR"], f"{sum(name.encode()) % 16:X}", name)
        if drawn.exists():
            return drawn.read_text()
        text = f"<tr><td>{body}</td></tr>"
        try:
            drawn.parent.mkdir(parents=True, exist_ok=True)
            drawn.write_text(text)
        except OSError as error:
            self.server.log.say("WARNING", f"Cache write error: {error}")
        return text

    def log_message(self''',
    ),
    (
        '            case ("PUT", ["api", "records", key]):',
        """            case ("GET", ["rows", key]):
                found = store.get(key)
                return (404, "Not Found") if found is None else (200, self.row(key, found))
            case ("PUT", ["api", "records", key]):""",
    ),
)


def visitors(pick: Pick) -> Scene:
    """As `sessions`: a file for each who ever came; here of a kiosk of Node.js, whose store of
    sessions is said in JSON, and a file of those who are there now must stay."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    root, age = f"/var/local/{main}", 1000 * pick.size(3600, 14400)
    place = f"{root}/{pick.choice(('sessions', 'visits', 'state/express-sessions'))}"
    kept, art = kiosk.vouchers(main, pick, 130), f"{root}/gift-card-artwork.psd"
    now = {
        f"{place}/{pick.token(24)}.json": File(json.dumps({"cookie": {"path": "/"}}), age=9.0 * n)
        for n in range(2, 11)
    }
    text = kiosk.PROGRAM.replace("\nfunction serve (request, response) {\n", VISITS)
    world = tiers.joined(
        [kiosk.kiosk(main, port, {"store": {"type": "file", "path": place, "maxAge": age}}),
         kiosk.kiosk(other, other_port)],
        files={**kept, **now, **kiosk.once(main, pick), **kiosk.once(other, pick),
               kiosk.CODE: File(text, age=tiers.MONTH), art: File(size=4 << 20, age=9e6)},
        folders={place: 0o755},
        mounts=(Mount(root, mb=24, inodes=pick.size(1300, 2400)),),
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(COME_AND_GONE.format(place=place, salt=pick.token(), age=age))

    return Scene(
        world=world,
        check=kiosk.status(main, f"http://127.0.0.1:{port}"),
        healthy=lambda probe: said(kiosk.keeps(probe, port), _tight(probe, root)),
        truth=Truth(
            (main,), ("inode-full",), rf"{place}|session-file-store",
            rf"100% +{root}|{place}|session-file-store|ENOSPC.*, open",
        ),
        inject=inject,
        fix=("mkdir -p /var/tmp/visits",
             f"find {place} -type f -mmin +720 -exec mv -t /var/tmp/visits {{}} +"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the biggest file goes": [f"rm {art}"],
            "everybody is sent away": [f"find {place} -type f -delete"],
            "old vouchers go": [f"find {root}/vouchers -type f -mtime +1 -delete"],
        },
        stays=(*kept, *now, art, kiosk.settings_of(main), kiosk.settings_of(other)),
        harm=lambda probe: said(kiosk.keeps(probe, other_port)),
    )  # fmt: skip


def drawn_pieces(pick: Pick) -> Scene:
    """As `fragments`: a cache of pieces of pages that only ever grows; here of a small shop, in the
    way of Rails, and what suffers is a database of SQLite that cannot make its journal."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    rows, root = shop.rows(pick, 20), f"{shop.HOME}/data"
    cache = f"{root}/{pick.choice(('cache', 'tmp/cache', f'{main}-cache'))}"
    letters = {
        f"{root}/letters/{pick.size(2019, 2026)}-{pick.token(6)}.eml": File(
            f"Subject: {pick.token(20)}\n", age=9e6
        )
        for _ in range(150)
    }
    copy = f"{root}/{main}-before-the-move.sqlite3"
    world = tiers.joined(
        [shop.app(main, port, {"CACHE_DIR": cache}, rows=rows, text=shop.program(*DRAWN)),
         shop.app(other, other_port, {"DATABASE": f"/var/lib/{other}.sqlite3"})],
        files={**letters, **shop.history(main, pick), **shop.history(other, pick),
               copy: File(size=2 << 20, age=9e6)},
        folders={cache: 0o755},
        mounts=(Mount(root, mb=32, inodes=pick.size(1400, 2600)),),
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(PIECES.format(cache=cache))

    return Scene(
        world=world,
        check=shop.up(main, port),
        healthy=lambda probe: said(
            shop.keeps(probe, port), _tight(probe, root),
            "" if probe.http(port, f"/rows/{next(iter(rows))}").status == 200 else "no row",
        ),
        truth=Truth(
            (main,), ("inode-full",), rf"{cache}|CACHE_DIR|views%2F",
            rf"100% +{root}|{cache}|CACHE_DIR|views%2F",
        ),
        inject=inject,
        fix=("mkdir -p /var/tmp/pieces",
             f"find {cache} -type f -exec mv --backup=t -t /var/tmp/pieces {{}} +",
             f"supervisorctl restart {main}; sleep 0.5"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the biggest file goes": [f"rm {copy}"],
            "old letters go": [f"find {root}/letters -type f -mtime +30 -delete"],
        },
        stays=(*letters, copy, shop.env_of(main), shop.env_of(other)),
        harm=lambda probe: said(
            shop.lost(probe, shop.base_of(main), rows), shop.keeps(probe, other_port)
        ),
    )  # fmt: skip
