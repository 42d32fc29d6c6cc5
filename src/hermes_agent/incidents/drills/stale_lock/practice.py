"""Locks that were left behind, in other houses."""

import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.stalls import MONTH, alive, stall
from hermes_agent.incidents.drills.world import File, Program, Truth

_PUBLISH = """\
#!/bin/bash
# takes what lies in {inbox} into the repository
cd {repo} || exit 1
while :; do
  for page in {inbox}/*; do
    [ -f "$page" ] || continue
    name=${{page##*/}}
    cp "$page" . && git add "$name" && git commit -q -m "publish $name" && rm "$page" \\
      || echo "publishing $name did not work, trying again"
  done
  sleep 0.3
done
"""


def repository(pick: Pick) -> Scene:
    """A job that commits pages was killed in the middle, and git's lock of the index stays."""
    name, other = pick.services(2)
    other_port = pick.port()
    root = pick.choice((f"/srv/{name}", f"/opt/{name}", f"/var/www/{name}"))
    repo, inbox = f"{root}/{pick.choice(('site', 'content', 'pages'))}", f"/var/spool/{name}"
    who = {f"GIT_{one}_{what}": name for one in ("AUTHOR", "COMMITTER") for what in ("NAME",)}
    who |= {f"GIT_{one}_EMAIL": f"{name}@localhost" for one in ("AUTHOR", "COMMITTER")}
    script = f"{root}/publish.sh"
    program = Program(
        name=name, command=script, directory=root, environment={**who, "HOME": root},
        about="publishes pages",
    )  # fmt: skip
    beside = stall(pick, other, other_port, settings={"pid_file": f"/run/{other}.pid"})
    lock = f"{repo}/.git/index.lock"
    files = {
        script: File(text=_PUBLISH.format(inbox=inbox, repo=repo), mode=0o755, age=MONTH),
        f"{repo}/index.html": File(text="<h1>pages</h1>\n", age=MONTH),
    }
    give = " ".join(f"{key}={value}" for key, value in who.items())
    setup = (f"cd {repo} && git init -q . && git add -A && {give} git commit -q -m first",)
    run = (
        f"page=check-$(date +%s%N); echo $page > {inbox}/$page; "
        f"for i in 1 2 3 4 5 6; do sleep 0.5; git -C {repo} log -1 --format=%s -- $page "
        "| grep -q . && echo published && exit 0; done; echo not published after 3 s; exit 1"
    )

    def healthy(probe: Probe) -> list[str]:
        found = (probe.stat(f"{inbox}/{one}") for one in probe.names(inbox))
        late = [one for one in found if one is not None and one.mtime < time.time() - 2]
        return said(f"{len(late)} pages wait" if late else "")

    def harm(probe: Probe) -> list[str]:
        draft = (probe.stat(f"{folder}/draft") for folder in (inbox, repo))
        return [] if any(draft) else ["a page was lost"]

    return Scene(
        world=parts.joined(parts.Part((program,), files, {inbox: 0o755}), beside.part, setup=setup),
        check=WatchedCheck(
            name=f"{name}-publishes", service=name, severity="P2",
            check=Check(run=run, expect=Expect(output="^published"), timeout=8.0),
        ),
        healthy=healthy,
        truth=Truth(
            component=(name,), category=("stale-lock",), locus=r"index\.lock",
            evidence=r"index\.lock|Another git process",
        ),
        inject=lines(
            f"supervisorctl stop {name}", f"touch -d '-20 min' {lock}",
            f"echo draft > {inbox}/draft", f"supervisorctl start {name}", "sleep 1",
        ),
        fix=(f"rm {lock}",),
        wrong={
            "it is restarted": [f"supervisorctl restart {name}"],
            "the pages are thrown away": [f"mv {inbox}/* /tmp/", f"supervisorctl restart {name}"],
        },
        stays=(f"{repo}/index.html", script, f"/run/{other}.pid"),
        runs=(script, beside.code),
        harm=harm,
    )  # fmt: skip


def lock_folder(pick: Pick) -> Scene:
    """A service that makes a folder for its lock was killed, and finds it there."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    where = pick.choice((f"/run/{name}", f"/var/lib/{name}", f"/srv/{name}/var"))
    lock = f"{where}/{pick.choice(('lock', f'{name}.lock.d', 'running.lock'))}"
    service = stall(pick, name, port, settings={"lock_dir": lock})
    beside = stall(pick, other, other_port, settings={"lock_dir": f"/run/{other}.lock"})
    folders = parts.Part((), {}, {where: 0o755})

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, name, service.root.rpartition("/")[0])
        return said(probe.keeps(port), "" if up else f"{name} is not under supervision")

    return Scene(
        world=parts.joined(service.part, beside.part, folders),
        check=alive(service),
        healthy=healthy,
        truth=Truth(
            component=(name,), category=("stale-lock",), locus=lock, evidence=rf"lock|{lock}",
        ),
        inject=lines(f"kill -9 $(pgrep -f '^python3 {service.code}')"),
        fix=(f"rmdir {lock}", f"supervisorctl start {name}"),
        wrong={
            "it is only started": [f"supervisorctl restart {name}"],
            "another's lock goes": [f"rmdir /run/{other}.lock", f"supervisorctl restart {name}"],
        },
        stays=(service.config, beside.config),
        runs=(beside.code,),
        harm=lambda probe: said("" if probe.stat(f"/run/{other}.lock") else "a lock is gone"),
    )  # fmt: skip


_REPORTS = """\
#!/bin/bash
BASE={base}
LOCK="$BASE/{lock}"
while :; do
  if [ -e "$LOCK" ]; then
    echo "$(date '+%F %T') waiting for the other run to end"
    sleep 1
    continue
  fi
  date +%s > "$LOCK"
  date +%s > "$BASE/latest.tmp" && mv "$BASE/latest.tmp" "$BASE/latest"
  rm -f "$LOCK"
  sleep 0.5
done
"""


def waits(pick: Pick) -> Scene:
    """A job waits for another run of itself, which is long gone; only its script knows where."""
    name, other = pick.services(2)
    job, base = f"{name}-{pick.word()}", pick.choice((f"/srv/{name}/out", f"/var/lib/{name}"))
    script = f"{pick.choice(('/opt', '/srv'))}/{name}/bin/{pick.word()}.sh"
    lock = pick.choice((".lock", "run.lock", "job.lck"))
    beside = stall(pick, other, pick.port())
    program = Program(name=job, command=f"bash {script}", about="makes reports")
    files = {script: File(text=_REPORTS.format(base=base, lock=lock), mode=0o755, age=MONTH)}
    run = f"test $(( $(date +%s) - $(cat {base}/latest) )) -lt 5 && echo fresh || echo stale"

    def healthy(probe: Probe) -> list[str]:
        written = probe.text(f"{base}/latest").strip()
        fresh = written.isdecimal() and time.time() - int(written) < 4
        return said("" if fresh else "the report is old")

    return Scene(
        world=parts.joined(parts.Part((program,), files, {base: 0o755}), beside.part),
        check=WatchedCheck(
            name=f"{job}-fresh", service=job, severity="P2",
            check=Check(run=run, expect=Expect(output="^fresh"), timeout=5.0),
        ),
        healthy=healthy,
        truth=Truth(
            component=(job,), category=("stale-lock",), locus=rf"{base}/{lock}",
            evidence=r"waiting for the other run|lock|lck",
        ),
        inject=lines(
            f"supervisorctl stop {job}", f"date +%s -d -3hours > {base}/{lock}",
            f"touch -d '-3 hours' {base}/{lock}", f"supervisorctl start {job}", "sleep 5",
        ),
        fix=(f"mv {base}/{lock} /var/tmp/",),
        wrong={"it is restarted": [f"supervisorctl restart {job}"]},
        stays=(script,),
        runs=(script, beside.code),
    )  # fmt: skip


def relative(pick: Pick) -> Scene:
    """A pid file, named as its service sees it, holds the number of a process that is another."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    inner = pick.choice(("run", "var", "tmp"))
    service = stall(pick, name, port, settings={"pid_file": f"{inner}/app.pid"})
    held = f"{service.root}/{inner}/app.pid"
    beside = stall(pick, other, other_port, settings={"pid_file": f"/run/{other}.pid"})
    folders = parts.Part((), {}, {f"{service.root}/{inner}": 0o755})

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, name, service.root.rpartition("/")[0])
        return said(probe.keeps(port), "" if up else f"{name} is not under supervision")

    return Scene(
        world=parts.joined(service.part, beside.part, folders),
        check=alive(service),
        healthy=healthy,
        truth=Truth(
            component=(name,), category=("stale-lock",), locus=r"app\.pid", evidence=r"app\.pid",
        ),
        inject=lines(
            f"kill -9 $(pgrep -f '^python3 {service.code}'); cat /run/{other}.pid > {held}",
        ),
        fix=(f"rm {held}", f"supervisorctl start {name}"),
        wrong={"it is only started": [f"supervisorctl restart {name}"]},
        stays=(service.config, beside.config, f"/run/{other}.pid"),
        runs=(beside.code,),
    )  # fmt: skip
