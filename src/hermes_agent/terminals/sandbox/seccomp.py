"""The system calls that commands in a sandbox may not make, as a seccomp program."""

import contextlib
import errno
import fcntl
import functools
import os
import socket
import stat
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyseccomp import SyscallFilter

REFUSED = (
    # other namespaces, mounts, roots
    "unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig",
    "fsmount", "fspick", "move_mount", "open_tree", "mount_setattr", "quotactl", "quotactl_fd",
    # other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
    # the kernel itself
    "bpf", "perf_event_open", "kexec_load", "kexec_file_load", "init_module", "finit_module",
    "create_module", "delete_module", "query_module", "get_kernel_syms", "reboot", "swapon",
    "swapoff", "syslog", "acct", "iopl", "ioperm", "modify_ldt", "uselib", "vhangup", "_sysctl",
    "lookup_dcookie", "userfaultfd", "fanotify_init", "open_by_handle_at", "nfsservctl",
    # keys, clock, names
    "keyctl", "add_key", "request_key", "settimeofday", "clock_settime", "clock_adjtime",
    "adjtimex", "stime", "sethostname", "setdomainname",
)  # fmt: skip
MISSING = ("io_uring_setup", "io_uring_enter", "io_uring_register")
"""Calls that programs can do without; the kernel seems not to know them."""
HOARDS = ("memfd_create", "memfd_secret", "shmget", "semget", "msgget")
"""Calls for memory that no process has mapped and that may outlive them all."""

SIGNALS = ("kill", "tkill", "tgkill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo")

MODES = ("chmod", "fchmod", "fchmodat", "fchmodat2")
"""Devices are those of the machine: on a read-only file system their mode could be changed."""
SET_ID = (stat.S_ISUID, stat.S_ISGID)
"""Modes with which a program runs as its owner, whoever starts it. `mkdir` ignores them."""
MODES_IN = {
    "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2,
}  # fmt: skip
FLAGS_IN = {"open": 1, "openat": 2}
"""Calls with a mode, and which argument it is, or which one says that the next is a mode."""
MAKING = (os.O_CREAT, 0o20000000)
"""The latter is what O_TMPFILE has beside O_DIRECTORY."""
LOCKS = (fcntl.F_SETLK, fcntl.F_SETLKW, 37, 38)
"""Also of files that can only be read, for which a service would wait. Who cannot write needs none,
so they seem to succeed."""
LEASE = 1024
OF_OTHERS = {
    "setpriority": 1, "ioprio_set": 1, "sched_setaffinity": 0, "sched_setscheduler": 0,
    "sched_setparam": 0, "sched_setattr": 0,
}  # fmt: skip
"""Calls that change how a process runs, and which argument says whose: 0 is the caller's own."""
OF_USERS = {"setpriority": 2, "ioprio_set": 3}
"""What the first argument is where whose is a user, and 0 the caller's: all of its processes."""
OWNERS = (8, 10, 15)
"""What of `fcntl` has the kernel signal a process: F_SETOWN, F_SETSIG, F_SETOWN_EX."""
OWNERS_BY_DEVICE = (0x8901, 0x8902)
"""FIOSETOWN and SIOCSPGRP, which do the same."""
DATAGRAMS = (2, 3)
"""Types of socket pairs that reach others by address."""

NEW_NAMESPACES = (
    0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET: a bit each."""
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX inject input into the user's terminal."""
MACHINES = ("x86_64", "aarch64")
"""As `uname -m` says it."""
FAMILIES = 46
NETLINK = 16
ROUTES = frozenset({0})
"""Protocols of netlink: programs list addresses with it."""
SHOWN = frozenset({0, 4})
"""Routes and sockets."""
NETLINKS = 32
USUAL = frozenset({socket.AF_UNSPEC, socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, NETLINK})
"""VSOCK and others ignore network namespaces, and most are only useful for attacks."""
LOCAL = frozenset({socket.AF_UNSPEC})
"""Without a network namespace: only socket pairs, which lead nowhere else."""


@functools.cache
def program(
    families: frozenset[int] = USUAL,
    *,
    hoards: bool = True,
    netlink: frozenset[int] = ROUTES,
    signals: bool = True,
    changes: bool = True,
    machine: str = "",
) -> bytes:
    """The filter, compiled for this machine or one of `MACHINES`. Programs for another
    architecture are killed, or they could make the same calls under other numbers."""
    from pyseccomp import ALLOW, EQ, ERRNO, GE, MASKED_EQ, NE, Arch, Arg, SyscallFilter

    made = SyscallFilter(ALLOW)
    if machine:
        made.remove_arch(Arch.NATIVE)
        made.add_arch(getattr(Arch, machine.upper()))
    refuse, unknown = ERRNO(errno.EPERM), ERRNO(errno.ENOSYS)
    if changes:
        _refuse_set_id(made)
    for name in REFUSED if signals else (*REFUSED, *SIGNALS):
        with contextlib.suppress(OSError):  # a call that this architecture does not have
            made.add_rule(refuse, name)
    for command in OWNERS if not signals else ():
        made.add_rule(refuse, "fcntl", Arg(1, MASKED_EQ, 0xFFFFFFFF, command))
    for request in OWNERS_BY_DEVICE if not signals else ():
        made.add_rule(refuse, "ioctl", Arg(1, MASKED_EQ, 0xFFFFFFFF, request))
    if not changes:
        for name in MODES:
            with contextlib.suppress(OSError):  # as above
                made.add_rule(ERRNO(errno.EROFS), name)
        made.add_rule(ERRNO(0), "flock")
        for command in LOCKS:
            made.add_rule(ERRNO(0), "fcntl", Arg(1, MASKED_EQ, 0xFFFFFFFF, command))
        made.add_rule(refuse, "fcntl", Arg(1, MASKED_EQ, 0xFFFFFFFF, LEASE))
    for name in MISSING if hoards else (*MISSING, *HOARDS):
        with contextlib.suppress(OSError):  # as above
            made.add_rule(unknown, name)
    made.add_rule(unknown, "clone3")  # its flags cannot be seen; libraries fall back to clone
    for bit in NEW_NAMESPACES:
        made.add_rule(refuse, "clone", Arg(0, MASKED_EQ, bit, bit))
    for name, whose in OF_OTHERS.items():
        made.add_rule(refuse, name, Arg(whose, NE, 0))
    for name, kind in OF_USERS.items():
        made.add_rule(refuse, name, Arg(0, MASKED_EQ, 0xFFFFFFFF, kind))
    made.add_rule(refuse, "socketpair", Arg(0, NE, socket.AF_UNIX))
    made.add_rule(refuse, "prlimit64", Arg(0, NE, 0), Arg(2, NE, 0))
    for kind in DATAGRAMS if socket.AF_UNIX not in families else ():
        made.add_rule(refuse, "socketpair", Arg(1, MASKED_EQ, 0xF, kind))
    for request in TERMINAL_INPUT:
        made.add_rule(refuse, "ioctl", Arg(1, MASKED_EQ, 0xFFFFFFFF, request))
    for family in range(FAMILIES):
        if family not in families:
            made.add_rule(refuse, "socket", Arg(0, EQ, family))
    made.add_rule(refuse, "socket", Arg(0, GE, FAMILIES))
    for protocol in set(range(NETLINKS)) - netlink if NETLINK in families else ():
        made.add_rule(refuse, "socket", Arg(0, EQ, NETLINK), Arg(2, EQ, protocol))
    if NETLINK in families:
        made.add_rule(refuse, "socket", Arg(0, EQ, NETLINK), Arg(2, GE, NETLINKS))
    return _compiled(made)


def _refuse_set_id(made: "SyscallFilter") -> None:
    from pyseccomp import ERRNO, MASKED_EQ, Arg

    refuse = ERRNO(errno.EPERM)
    made.add_rule(ERRNO(errno.ENOSYS), "openat2")  # its mode cannot be seen; programs fall back
    for bit in SET_ID:
        for name, mode in MODES_IN.items():
            with contextlib.suppress(OSError):  # a call that this architecture does not have
                made.add_rule(refuse, name, Arg(mode, MASKED_EQ, bit, bit))
        for flag in MAKING:
            for name, flags in FLAGS_IN.items():
                how = Arg(flags, MASKED_EQ, flag, flag), Arg(flags + 1, MASKED_EQ, bit, bit)
                with contextlib.suppress(OSError):  # as above
                    made.add_rule(refuse, name, *how)


def _compiled(filter: "SyscallFilter") -> bytes:
    with tempfile.TemporaryFile() as file:
        filter.export_bpf(file)
        file.seek(0)
        return file.read()


def missing() -> str:
    """What is missing to compile the filter; empty when nothing is."""
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:  # no libseccomp for it to load
        return f"libseccomp cannot be loaded ({error}): install libseccomp2"
    return ""
