"""Makes a box and becomes its first process. Run as a script by a bare Python: it imports the
standard library alone.

First, as root or in a user namespace, a file system and a process namespace are laid out. Then a
second user namespace is entered, which owns the network and sees the mounts as locked: nobody in
the box can lift one to look below. Process 1 of it becomes the init system of the box."""

import _socket  # `socket` and `typing` would take as long to import as the rest
import ctypes
import fcntl
import marshal
import os
import resource
import select
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
NEWCGROUP = 0x02000000
NOSUID, NODEV, BIND, RECURSIVE, PRIVATE = 2, 4, 4096, 16384, 1 << 18
DETACH = 2
SET_DUMPABLE = 4
MAX_DATA = 400 << 20
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SETGROUPS = {"x86_64": 116, "aarch64": 159}
SET_SECCOMP, FILTER = 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOWED, DONE = 0x7FFF0000, 0x00050000
MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
READ_ONLY, NO_SUID = 1, 2
UP = 1
KILL = 9
SET_FLAGS, SET_ADDRESS, SET_NETMASK = 0x8914, 0x8916, 0x891C
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
ETC = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "protocols", "services",
    "nsswitch.conf", "mime.types", "ssl/openssl.cnf", "gai.conf", "host.conf", "localtime",
)  # fmt: skip
"""What programs of /usr look for; nothing that tells of this machine."""
FOLDERS = {
    "root": 0o700, "tmp": 0o1777, "var": 0o755, "var/log": 0o755, "var/lib": 0o755,
    "var/tmp": 0o1777, "var/cache": 0o755, "run": 0o755, "home": 0o755, "srv": 0o755,
    "etc": 0o755, "opt/bin": 0o755, "opt/lib": 0o755, "var/opt": 0o755,
}  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        spec = marshal.load(file)
    tell, leash = int(sys.argv[2]), int(sys.argv[3])
    for group in spec["groups"]:
        with open(f"{group}/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
    etc = dict(_gathered())
    os.umask(0o022)
    booted = spec["booted"]
    who = _apart(0 if booted else spec["ordinary"])
    heard, say = os.pipe()
    child = os.fork()
    if child:
        os.close(say)
        if os.read(heard, 16) == b"ready":
            os.write(tell, f"ready {child}".encode())
        os.close(tell)
        _hold(child, leash)
        return
    os.close(heard)
    os.close(tell)
    os.close(leash)
    _lay_out(spec, who)
    _enter(who, spec["hostname"], spec["addresses"], user=not booted)
    _furnish(spec, etc)
    os.write(say, b"ready")
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in range(3):  # else they would tell where the box's log lies
        os.dup2(nothing, number)
    os.closerange(3, nothing + 64)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_DATA, MAX_DATA))  # a leak stays the box's own
    if not booted:
        _no_groups()
    os.execve(spec["init"][0], spec["init"], spec["environment"])  # noqa: S606


def _hold(child: int, leash: int) -> None:
    """Wait for the box to end. When whoever made it is gone, so is the box, unless it said `keep`."""
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([ended, leash], [], [])
    if leash in ready and not os.read(leash, 4):
        os.kill(child, KILL)
    os.waitpid(child, 0)


def _apart(ordinary: int) -> int:
    """Namespaces for mounts and processes. Returns the user that the box will be."""
    if os.geteuid() == 0 and _known(ordinary) and _libc.unshare(NEWNS | NEWPID) == 0:
        _mount("none", "/", "", RECURSIVE | PRIVATE)
        return ordinary
    user, group = os.geteuid(), os.getegid()
    _good(_libc.unshare(NEWUSER | NEWNS | NEWPID), "a user namespace")
    _map(user, group)
    _mount("none", "/", "", RECURSIVE | PRIVATE)
    return 0


def _known(user: int) -> bool:
    """Whether there is such a user here: a namespace may have few."""
    with open("/proc/self/uid_map") as file:
        rows = [[int(word) for word in line.split()] for line in file]
    return any(first <= user < first + count for first, _, count in rows)


def _map(user: int, group: int) -> None:
    for name, text in (
        ("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1"),
    ):  # fmt: skip
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _lay_out(spec: "dict[str, Any]", who: int) -> None:
    """The file system, as the box will see it, and nothing else of this machine."""
    root: str = spec["root"]
    own = f"uid={who},gid={who}"
    _mount("tmpfs", root, "tmpfs", NOSUID | NODEV, f"mode=755,size={spec['mb']}m,{own}")
    for path in ("dev", "proc", *FOLDERS):
        os.makedirs(f"{root}/{path}", exist_ok=True)
    for name in DEVICES:
        _touch(f"{root}/dev/{name}")
        _mount(f"/dev/{name}", f"{root}/dev/{name}", "", BIND)
    for name in ("shm", "pts"):
        os.mkdir(f"{root}/dev/{name}")
    _mount("tmpfs", f"{root}/dev/shm", "tmpfs", NOSUID | NODEV, f"mode=1777,size=64m,{own}")
    os.symlink("/run", f"{root}/var/run")
    for name, there in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{there}", f"{root}/dev/{name}")
    for source, target in spec["shown"]:
        _show(source, root + target)
    if spec["booted"]:
        os.makedirs(f"{root}/sys", exist_ok=True)
        _mount("/sys", f"{root}/sys", "", BIND | RECURSIVE)
    for top in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{top}"):
            os.symlink(os.readlink(f"/{top}"), f"{root}/{top}")
        elif os.path.isdir(f"/{top}"):
            _show(f"/{top}", f"{root}/{top}")
    for path in spec["hidden"]:
        if os.path.isdir(root + path):
            _mount("tmpfs", root + path, "tmpfs", NOSUID | NODEV, "mode=755,size=4k")
    _mount("proc", f"{root}/proc", "proc", NOSUID | NODEV)
    for mount in spec["mounts"]:
        path = root + mount["path"]
        os.makedirs(path, exist_ok=True)
        most = f",nr_inodes={mount['inodes']}" if mount["inodes"] else ""
        how = f"mode=755,size={mount['mb']}m{most},{own}"
        _mount("tmpfs", path, "tmpfs", NOSUID | NODEV, how)
    if who:
        for folder, names, _ in os.walk(root):
            names[:] = [name for name in names if not _elsewhere(f"{folder}/{name}", root)]
            for name in names:
                os.chown(f"{folder}/{name}", who, who)
    os.chdir(root)
    _good(_libc.syscall(PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _good(_libc.umount2(b".", DETACH), "umount")
    os.chdir("/")


def _elsewhere(path: str, root: str) -> bool:
    """Whether it is another file system's, or leads to one."""
    return os.path.islink(path) or os.lstat(path).st_dev != os.lstat(root).st_dev


def _show(source: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    _mount(source, target, "", BIND | RECURSIVE)
    attributes = struct.pack("QQQQ", READ_ONLY | NO_SUID, 0, 0, 0)
    done = _libc.syscall(
        MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), AT_RECURSIVE, attributes, len(attributes)
    )
    _good(done, f"{source} read-only")


def _enter(who: int, hostname: str, addresses: list[str], *, user: bool) -> None:
    """The namespace that the box's root is root of."""
    if who:
        os.setgroups([])
        os.setresgid(who, who, who)
        os.setresuid(who, who, who)
        _libc.prctl(SET_DUMPABLE, 1, 0, 0, 0)
    rest = NEWNS | NEWNET | NEWUTS | NEWIPC
    _good(_libc.unshare(rest | NEWUSER if user else rest | NEWCGROUP), "the box's namespaces")
    if user:
        _map(who, who)
    else:
        _own_groups()
    _socket.sethostname(hostname)
    _loopback(addresses)
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as ports:
        ports.write("0")
    _mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
    os.symlink("pts/ptmx", "/dev/ptmx")


def _own_groups() -> None:
    """The control groups as systemd is to see them: from the box's own downwards."""
    second = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    if second:
        _mount("cgroup2", "/sys/fs/cgroup", "cgroup2", NOSUID | NODEV)
        return
    _mount("tmpfs", "/sys/fs/cgroup", "tmpfs", NOSUID | NODEV, "mode=755")
    os.mkdir("/sys/fs/cgroup/systemd")
    _mount("cgroup", "/sys/fs/cgroup/systemd", "cgroup", NOSUID | NODEV, "none,name=systemd")


def _loopback(addresses: list[str]) -> None:
    """As `ip link set lo up` and `ip addr add ADDRESS dev lo` do."""
    wire = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(wire, SET_FLAGS, struct.pack("16sH14s", b"lo", UP, b""))
    for number, address in enumerate(addresses):
        for what, value in ((SET_ADDRESS, address), (SET_NETMASK, "255.255.255.255")):
            family = struct.pack("HH4s8x", _socket.AF_INET, 0, _socket.inet_aton(value))
            fcntl.ioctl(wire, what, struct.pack("16s16s", f"lo:{number}".encode(), family))
    wire.close()


def _no_groups() -> None:
    """Nobody may set groups in a namespace like ours, and daemons that change users insist on it:
    they are told that it is done, and nothing is."""
    steps = (
        (LOAD, 0, 0, 0),
        (JUMP_EQUAL, 0, 1, SETGROUPS[os.uname().machine]),
        (RETURN, 0, 0, DONE),
        (RETURN, 0, 0, ALLOWED),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    _good(_libc.prctl(SET_SECCOMP, FILTER, program, 0, 0), "a filter for setgroups")


def _gathered() -> "Any":
    """Files and links of /etc that go into the box, as (path, mode, content or None, link)."""
    for name in ETC:
        path = f"/etc/{name}"
        inner = sorted(os.scandir(path), key=str) if os.path.isdir(path) else ()
        for one in (path, *(entry.path for entry in inner)):
            if os.path.islink(one):
                yield one, (None, os.readlink(one))
            elif os.path.isfile(one) and os.access(one, os.R_OK):
                with open(one, "rb") as file:
                    yield one, (file.read(), "")


def _furnish(spec: "dict[str, Any]", etc: dict[str, tuple[bytes | None, str]]) -> None:
    for path, mode in FOLDERS.items():
        os.chmod(f"/{path}", mode)
    for path, (data, link) in etc.items():
        _write(path, data or b"", 0o644, link)
    for path, mode in spec["folders"].items():
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
    now = time.time()
    for path, file in spec["files"].items():
        data = file["data"] + os.urandom(file["size"])
        _write(path, data, file["mode"], file["link"])
        if file["age"] and not file["link"]:
            os.utime(path, (now - file["age"], now - file["age"]))
    if spec["setup"]:
        script = ["/bin/bash", "-e", "-c", "\n".join(spec["setup"])]
        done = os.waitpid(os.posix_spawn(script[0], script, spec["environment"]), 0)[1]
        if done:
            raise SystemExit(f"the setup of the box ended with {done}")


def _write(path: str, data: bytes, mode: int, link: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if link:
        try:
            os.symlink(link, path)
        except FileExistsError:
            pass
        return
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def _touch(path: str) -> None:
    with open(path, "wb"):
        pass


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode() or None, flags,
        data.encode() or None,
    )  # fmt: skip
    _good(done, f"a mount of {source} at {target}")


def _good(done: int, what: str) -> None:
    if done:
        raise SystemExit(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
