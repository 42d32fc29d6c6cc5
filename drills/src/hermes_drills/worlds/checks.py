"""What the operator of a machine watches it with: small scripts, and the checks that run them."""

from collections.abc import Mapping

from hermes_drills.types import Check, File, Truth, World

FRESH_SECONDS = 6
_PROCESSOR = """\
#!/bin/sh
# Fails where a process has wanted more than 70 % of a processor for half a second, and got some.
look() { grep -s . /proc/[0-9]*/task/[0-9]*/schedstat | tr ':/' '  '; }
look >/tmp/.before.$$; sleep 0.5; look >/tmp/.after.$$
awk 'NR == FNR { ran[$4] = $6; had[$4] = $6 + $7; next }
    $4 in ran && $6 - ran[$4] > 15e6 && $6 + $7 - had[$4] > 350e6 {
    print "process " $2 " is at work all the time"; bad = 1 } END { exit bad }' /tmp/.before.$$ /tmp/.after.$$
code=$?; rm -f /tmp/.before.$$ /tmp/.after.$$; exit $code
"""
_MEMORY = """\
#!/bin/sh
# Fails where a process has more than $1 MB of memory.
grep -s VmRSS /proc/[0-9]*/status | awk -v most="$1" '$2 > most * 1024 {
    print $1, int($2 / 1024) " MB"; bad = 1 } END { exit bad }'
"""
_DISK = """\
#!/bin/sh
# Fails where a file system is used to 90 % or more, in bytes or in files.
{ df -P "$@"; df -Pi "$@"; } | awk '$5 + 0 >= 90 { print; bad = 1 } END { exit bad }'
"""
_DESCRIPTORS = """\
#!/bin/sh
# Fails where a process has opened more than 80 % of the files that it may.
bad=0
for p in /proc/[0-9]*; do
    most=$(awk '/^Max open files/ {print $4}' "$p/limits" 2>/dev/null)
    now=$(ls "$p/fd" 2>/dev/null | wc -l)
    [ "${most:-0}" -gt 0 ] 2>/dev/null && [ $((now * 100)) -gt $((most * 80)) ] &&
        echo "${p#/proc/}: $now of $most files open" && bad=1
done
exit $bad
"""
_LOG = """\
#!/bin/sh
# Fails where a log has grown by more than 100 kB in a second, or has no room to.
df -P "$@" 2>/dev/null | awk '$5 + 0 >= 98 { print; bad = 1 } END { exit bad }' || exit 1
before=$(cat "$@" 2>/dev/null | wc -c); sleep 1; after=$(cat "$@" 2>/dev/null | wc -c)
[ $((after - before)) -lt 100000 ] || { echo "$* grew by $((after - before)) bytes in a second"; exit 1; }
"""
_FRESH = """\
#!/bin/sh
# Fails where a file is older than so many seconds.
age=$(( $(date +%s) - $(stat -c %Y "$1") ))
echo "$1 is $age s old"
[ "$age" -le "$2" ]
"""


def scripts() -> Mapping[str, File]:
    texts = {
        "processor": _PROCESSOR, "memory": _MEMORY, "disk": _DISK, "descriptors": _DESCRIPTORS,
        "log": _LOG, "fresh": _FRESH,
    }  # fmt: skip
    return {f"/opt/bin/check-{name}": File(text, mode=0o755) for name, text in texts.items()}


def check(world: World, truth: Truth) -> Check:
    """The check that shows a fault: what an operator would have in place."""
    name = truth.component[0]
    entry = world.service(world.entry)
    match truth.check:
        case "disk":
            paths = " ".join(mount.path for mount in world.mounts)
            return Check(f"{world.hostname}-disk", f"check-disk {paths}", entry.name, "P2")
        case "memory":
            return Check(f"{name}-memory", "check-memory 160", name, "P2")
        case "descriptors":
            return Check(f"{name}-descriptors", "check-descriptors", name, "P2")
        case "processor":
            return Check(f"{world.hostname}-processor", "check-processor", entry.name, "P2")
        case "log":
            log = truth.notes.get("log") or world.service(name).log
            return Check(f"{name}-log", f"check-log {log}", name, "P3")
        case "job":
            job = world.job(truth.notes.get("job", name))
            return Check(f"{job.name}-fresh", f"check-fresh {job.product} {FRESH_SECONDS}",
                         job.name, "P2")  # fmt: skip
        case _:
            return answers(world)


def answers(world: World) -> Check:
    """Whether the service that users reach does its work."""
    entry = world.service(world.entry)
    where = f"127.0.0.1:{entry.port}/ready"
    run = f"fetch -m 3 http://{where}"
    if entry.certificate:
        name = next(host for host in world.hosts if host.startswith(f"{entry.name}."))
        run = f"fetch -m 3 --ca /etc/ssl/authority.pem --name {name} https://{where}"
    return Check(f"{entry.name}-answers", run, entry.name)
