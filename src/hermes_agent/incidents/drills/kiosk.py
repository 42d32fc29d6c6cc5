"""A kiosk: vouchers over HTTP by a program of Node.js, settings in JSON below /etc/kiosk.d, what
is kept below /var/local, logs as pino writes them. Parts of such worlds."""

import base64
import json
import time
from collections.abc import Mapping
from random import Random
from typing import Any

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part
from hermes_agent.incidents.drills.world import File, Program

CODE = "/app/kiosk/server.js"
VOUCHERS = "/vouchers"
PROGRAM = r"""// Vouchers over HTTP: node server.js SETTINGS.json
//   PUT /vouchers/KEY, GET /vouchers/KEY
//   GET /status   writes one and reads it
//   GET /token    where tokens.secret is set: a token for whoever writes
// http: host, port, cert and key (then over TLS; read at the start and on SIGHUP). auth: url and
// secret of who gives out tokens. rates: file and maxAge of the exchange rates. saveRequests: a
// folder in which the body of each request is left.
'use strict'
const crypto = require('crypto')
const fs = require('fs')
const path = require('path')

const own = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))
const now = () => Math.floor(Date.now() / 1000)
let count = 0

function log (level, msg) {
  const line = JSON.stringify({ level, time: Date.now(), pid: process.pid, name: own.name, msg })
  try {
    fs.appendFileSync(own.log, line + '\n')
  } catch (error) {
    process.stderr.write(line + '\n')
  }
}

const coded = value => Buffer.from(JSON.stringify(value)).toString('base64url')
const signed = (text, secret) =>
  crypto.createHmac('sha256', secret).update(text).digest('base64url')

function token () {
  const from = now()
  const text = coded({ alg: 'HS256', typ: 'JWT' }) + '.' +
    coded({ sub: own.name, iat: from, nbf: from, exp: from + own.tokens.ttl })
  return text + '.' + signed(text, own.tokens.secret)
}

function verify (jwt) {
  const [head, body, mark] = jwt.trim().split('.')
  if (mark !== signed(head + '.' + body, own.auth.secret)) {
    throw new Error('JsonWebTokenError: invalid signature')
  }
  const told = JSON.parse(Buffer.from(body, 'base64url'))
  const at = seconds => new Date(seconds * 1000).toISOString()
  if (told.nbf > now() + 30) throw new Error('NotBeforeError: jwt not active until ' + at(told.nbf))
  if (told.exp < now() - 30) throw new Error('TokenExpiredError: jwt expired at ' + at(told.exp))
}

function current () {
  const told = JSON.parse(fs.readFileSync(own.rates.file, 'utf8'))
  const age = (Date.now() - Date.parse(told.asOf.replace(' ', 'T') + 'Z')) / 1000
  if (age > own.rates.maxAge) throw new Error(`rates as of ${told.asOf} UTC are too old`)
  if (age < -60) throw new Error(`rates as of ${told.asOf} UTC are of the future`)
}

async function put (key, body) {
  if (own.auth) verify(await (await fetch(own.auth.url + '/token')).text())
  if (own.rates) current()
  if (own.saveRequests) {
    count += 1
    fs.writeFileSync(path.join(own.saveRequests, `${Date.now()}-${count}.body`), body)
  }
  const place = path.join(own.vouchers, key)
  fs.writeFileSync(place + '~', body)
  fs.renameSync(place + '~', place)
}

async function answer (request, body) {
  if (request.url === '/token' && own.tokens) return [200, token()]
  if (request.url === '/status') {
    await put('status', Buffer.from(String(Date.now())))
    return [200, JSON.stringify({ ok: true, service: own.name })]
  }
  const key = request.url.replace('/vouchers/', '')
  if (!/^[\w-]+$/.test(key)) return [404, 'no such page']
  if (request.method === 'PUT') {
    await put(key, body)
    return [201, 'kept']
  }
  const place = path.join(own.vouchers, key)
  return fs.existsSync(place) ? [200, fs.readFileSync(place)] : [404, 'no such voucher']
}

function serve (request, response) {
  const parts = []
  request.on('data', part => parts.push(part))
  request.on('end', async () => {
    let status, text
    try {
      [status, text] = await answer(request, Buffer.concat(parts))
    } catch (error) {
      [status, text] = [500, JSON.stringify({ ok: false, error: 'internal error' })]
      log(50, `${request.method} ${request.url}: ${error.message}`)
    }
    response.writeHead(status)
    response.end(text)
  })
}

const pair = () => ({ cert: fs.readFileSync(own.http.cert), key: fs.readFileSync(own.http.key) })
const server = own.http.cert
  ? require('https').createServer(pair(), serve)
  : require('http').createServer(serve)
process.on('SIGHUP', () => {
  if (own.http.cert) server.setSecureContext(pair())
  log(30, 'settings of TLS were read anew')
})
server.listen(own.http.port, own.http.host, () => log(30, `listening at ${own.http.port}`))
"""
ONCE = (
    "PUT /vouchers/v{}: ENOSPC: no space left on device, write",
    "PUT /vouchers/v{}: EACCES: permission denied, open '/var/local/old/vouchers/v1~'",
    "PUT /vouchers/v{}: fetch failed",
    "GET /status: EMFILE: too many open files",
    "PUT /vouchers/v{}: rates as of 2026-03-29 01:10:00 UTC are too old",
)
"""What logs of other months say."""


def settings_of(name: str) -> str:
    return f"/etc/kiosk.d/{name}.json"


def log_of(name: str) -> str:
    return f"/var/local/{name}/log/{name}.ndjson"


def store_of(name: str) -> str:
    return f"/var/local/{name}/vouchers"


def kiosk(
    name: str,
    port: int,
    settings: Mapping[str, object] | None = None,
    *,
    tls: tuple[str, str] | None = None,
    **program: Any,
) -> Part:
    """One of them. `tls`: where its certificate and key are."""
    http: dict[str, object] = {"host": "127.0.0.1", "port": port}
    if tls:
        http |= {"cert": tls[0], "key": tls[1]}
    own = {
        "name": name, "http": http, "vouchers": store_of(name), "log": log_of(name),
        **(settings or {}),
    }  # fmt: skip
    made: dict[str, Any] = {
        "command": f"node {CODE} {settings_of(name)}", "ready": f"tcp:{port}",
        "about": f"vouchers; settings {settings_of(name)}, log {log_of(name)}", **program,
    }  # fmt: skip
    return Part(
        Program(name=name, **made),
        {
            CODE: File(PROGRAM, age=MONTH),
            settings_of(name): File(json.dumps(own, indent=2) + "\n", mode=0o640, age=MONTH),
        },
        {store_of(name): 0o755, log_of(name).rpartition("/")[0]: 0o755},
    )


def vouchers(name: str, pick: Pick, count: int = 9) -> dict[str, File]:
    """Vouchers that people have bought."""
    return {
        f"{store_of(name)}/v{pick.token(9)}": File(pick.token(28), age=MONTH) for _ in range(count)
    }


def once(name: str, pick: Pick, lines: int = 24) -> dict[str, File]:
    """The log of other months, with trouble that is over."""
    random = Random(pick.size(1, 10**9))
    told = []
    for number in range(lines):
        bad = random.random() < 0.25
        text = random.choice(ONCE).format(random.randint(100, 999)) if bad else "listening at 8080"
        row = {
            "level": 50 if bad else 30, "time": 1768000000000 + number * 900000000 + number,
            "pid": random.randint(40, 900), "name": name, "msg": text,
        }  # fmt: skip
        told.append(json.dumps(row, separators=(",", ":")) + "\n")
    return {log_of(name): File("".join(told))}


def status(name: str, url: str, more: str = "") -> WatchedCheck:
    """The check of the shop: its status is well."""
    run = f"curl -sS -m 4 {more} {url}/status".replace("  ", " ")
    check = Check(run, Expect(output='"ok":true'), timeout=8.0)
    return WatchedCheck(f"{name} status", check, name, severity="P1")


def keeps(probe: Probe, *ports: int, **how: Any) -> str:
    """Why one of them does not keep vouchers; empty when all do."""
    return next((told for port in ports if (told := probe.keeps(port, VOUCHERS, **how))), "")


def off(probe: Probe, port: int) -> str:
    """By how much its tokens are not of now; empty when they are."""
    words = probe.http(port, "/token").text.split(".")
    if len(words) != 3:
        return "no token is given out"
    body = json.loads(base64.urlsafe_b64decode(words[1] + "=="))
    shift = body["iat"] - time.time()
    return f"tokens are of {shift:+.0f} s from now" if abs(shift) > 10 else ""
