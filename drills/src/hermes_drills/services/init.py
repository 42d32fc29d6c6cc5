"""Process 1 of a box without supervisord. usage: init.py systemd|sysv

`systemd`: a stand-in, called so in the documentation, that keeps the units below
/etc/systemd/system and answers `systemctl` and `journalctl` of the box. `sysv`: starts the scripts
below /etc/init.d once, and adopts what they leave."""

import _signal
import _socket  # `socket` and `subprocess` would take longer to import than the rest
import marshal
import os
import sys
import time

UNITS = "/etc/systemd/system"
SOCKET = "/run/systemd/private"
JOURNAL = "/var/log/journal"
BURST, WITHIN = 5, 10.0
APP = ("/opt/bin/as-app",)


def spawn(words, log, folder, environment):
    """The process id of a program that was started in a session of its own."""
    words = [one if "/" in one else found(one) for one in words[:1]] + words[1:]
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        os.chdir(folder)
        out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.execve(words[0], words, {**os.environ, **environment})
    except OSError as error:
        os.write(2, f"cannot start {words[0]}: {error}\n".encode())
    os._exit(203)


def found(program):
    folders = os.environ.get("PATH", "/usr/bin:/bin").split(":")
    return next(
        (f"{f}/{program}" for f in folders if os.access(f"{f}/{program}", os.X_OK)), program
    )


def ended(pid):
    """How a child ended: its exit code, or less than 0 for a signal; None while it runs."""
    try:
        who, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if who else None


class Unit:
    def __init__(self, name):
        self.name = name
        self.pid = 0
        self.result, self.code = "success", 0
        self.state = "inactive"
        self.starts = []
        self.again = 0.0
        self.since = time.time()
        self.read()

    def read(self):
        self.settings, self.environment = {}, {}
        try:
            with open(f"{UNITS}/{self.name}.service") as file:
                lines = file.read().splitlines()
        except OSError:
            return
        for line in lines:
            key, equals, value = line.partition("=")
            if not equals or line.startswith("#"):
                continue
            if key == "Environment":
                name, _, text = value.strip().strip("'\"").partition("=")
                self.environment[name] = text
            else:
                self.settings[key] = value.strip()

    def note(self, text):
        line = f"{time.strftime('%b %d %H:%M:%S')} systemd[1]: {self.name}.service: {text}\n"
        try:
            os.makedirs(JOURNAL, exist_ok=True)
            with open(f"{JOURNAL}/{self.name}.log", "a") as file:
                file.write(line)
        except OSError:  # no room for it; that is no reason to go down
            pass

    def start(self):
        if self.pid:
            return ""
        if "ExecStart" not in self.settings:
            return f"Unit {self.name}.service not found."
        now = time.time()
        self.starts = [one for one in self.starts if now - one < WITHIN] + [now]
        if len(self.starts) > BURST:
            self.fail("start-limit-hit", "Start request repeated too quickly.")
            return f"Job for {self.name}.service failed."
        words = self.settings["ExecStart"].split()
        if self.settings.get("LimitNOFILE"):
            words = ["prlimit", f"--nofile={self.settings['LimitNOFILE']}", *words]
        if self.settings.get("LimitAS"):
            words = ["prlimit", f"--as={self.settings['LimitAS']}", *words]
        if self.settings.get("User", "root") != "root":
            words = [*APP, *words]
        os.makedirs(JOURNAL, exist_ok=True)
        log, folder = f"{JOURNAL}/{self.name}.log", self.settings.get("WorkingDirectory", "/")
        self.pid = spawn(words, log, folder, self.environment)
        self.state, self.since, self.result = "active", now, "success"
        self.note("Started.")
        return ""

    def fail(self, result, text):
        self.state, self.result, self.since, self.again = "failed", result, time.time(), 0.0
        self.note(text)

    def ended(self, code):
        """Its process is gone without being asked to."""
        self.pid = 0
        how = f"code=killed, status={-code}" if code < 0 else f"code=exited, status={code}"
        self.note(f"Main process exited, {how}")
        self.code = code
        wanted = self.settings.get("Restart", "no")
        if wanted == "always" or (wanted == "on-failure" and code):
            self.state, self.again = "activating", time.time() + 0.1
        elif code:
            self.fail("exit-code" if code > 0 else "signal", "Failed with result 'exit-code'.")
        else:
            self.state, self.since = "inactive", time.time()
            self.note("Deactivated successfully.")

    def stop(self):
        self.again = 0.0
        pid, self.pid = self.pid, 0
        if pid:
            for number in (_signal.SIGTERM, _signal.SIGKILL):
                end = time.monotonic() + 3
                try:
                    os.killpg(pid, number)
                except ProcessLookupError:  # it has no session of its own yet
                    os.kill(pid, number)
                while (over := ended(pid) is not None) is False and time.monotonic() < end:
                    time.sleep(0.01)
                if over:
                    break
            self.note("Stopped.")
        self.state, self.since, self.starts = "inactive", time.time(), []
        return ""


class Manager:
    def __init__(self):
        os.makedirs("/run/systemd/system", exist_ok=True)
        self.units = {}
        self.reload()
        self.server = _socket.socket(_socket.AF_UNIX)
        self.server.bind(SOCKET)
        self.server.listen(16)
        self.server.settimeout(0.05)

    def reload(self):
        for file in os.listdir(UNITS):
            name = file.removesuffix(".service")
            if name == file:
                continue
            if name in self.units:
                self.units[name].read()
            else:
                self.units[name] = Unit(name)
        return ""

    def run(self):
        for unit in list(self.units.values()):
            if unit.settings.get("WantedBy"):
                unit.start()
        while True:
            try:
                number, _ = self.server._accept()
            except TimeoutError:
                self.tend()
                continue
            client = _socket.socket(fileno=number)
            self.answer(client)
            client.close()
            self.tend()

    def answer(self, client):
        try:
            said = self.done(*marshal.loads(client.recv(65536)))
            client.sendall(marshal.dumps(said))
        except (OSError, ValueError, EOFError, TypeError):
            return

    def tend(self):
        for unit in self.units.values():
            if unit.pid and (code := ended(unit.pid)) is not None:
                unit.ended(code)
            if unit.again and time.time() >= unit.again:
                unit.again = 0.0
                unit.start()
        reap({unit.pid for unit in self.units.values()})

    def done(self, action, name):
        if action == "reload":
            return {"error": self.reload()}
        if action == "list":
            return {"units": [self.facts(unit) for unit in self.units.values()]}
        unit = self.units.get(name)
        if unit is None:
            return {"error": f"Unit {name}.service could not be found.", "missing": True}
        if action == "start":
            return {"error": unit.start()}
        if action == "stop":
            return {"error": unit.stop()}
        if action == "restart":
            unit.stop()
            return {"error": unit.start()}
        if action == "reset":
            unit.state, unit.starts = "inactive" if unit.state == "failed" else unit.state, []
            return {"error": ""}
        return {"unit": self.facts(unit)}

    def facts(self, unit):
        path = f"{UNITS}/{unit.name}.service"
        sub = {"active": "running", "failed": "failed", "activating": "auto-restart"}
        return {
            "Id": f"{unit.name}.service", "LoadState": "loaded" if unit.settings else "not-found",
            "ActiveState": unit.state, "SubState": sub.get(unit.state, "dead"),
            "MainPID": str(unit.pid), "Result": unit.result, "FragmentPath": path,
            "ExecMainStatus": str(abs(unit.code)), "Restart": unit.settings.get("Restart", "no"),
            "Description": unit.settings.get("Description", unit.name),
            "since": unit.since,
        }  # fmt: skip


def reap(mine):
    """Adopt what others left; what is ours is waited for by its unit."""
    while True:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None or found.si_pid in mine:
            return
        os.waitpid(found.si_pid, os.WNOHANG)


def sysv():
    for name in sorted(os.listdir("/etc/init.d")):
        if os.access(f"/etc/init.d/{name}", os.X_OK):
            spawn([f"/etc/init.d/{name}", "start"], "/var/log/boot.log", "/", {})
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.2)


def main(kind):
    if kind == "sysv":
        sysv()
    Manager().run()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except ChildProcessError:
        pass
