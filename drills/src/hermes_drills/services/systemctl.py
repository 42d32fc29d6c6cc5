"""`systemctl` and `journalctl` of a box, which ask the stand-in for systemd."""

import _socket  # `socket` would take as long to import as the rest
import marshal
import os
import sys
import time

JOURNAL = "/var/log/journal"
CHANGE = {"start": "start", "stop": "stop", "restart": "restart", "reload": "restart",
          "try-restart": "restart", "reload-or-restart": "restart", "reset-failed": "reset"}  # fmt: skip


def ask(action, unit=""):
    server = _socket.socket(_socket.AF_UNIX)
    server.connect("/run/systemd/private")
    server.sendall(marshal.dumps((action, unit)))
    data = b""
    while part := server.recv(65536):
        data += part
    return marshal.loads(data)


def main(words):
    flags, plain = options(words)
    if not plain:
        plain = ["list-units"]
    action, *units = plain
    units = [unit.removesuffix(".service") for unit in units]
    if action in CHANGE:
        return max([change(CHANGE[action], unit) for unit in units], default=0)
    if action == "daemon-reload":
        ask("reload")
        return 0
    if action in ("enable", "disable", "unmask"):
        return 0
    if action == "cat":
        return max([cat(unit) for unit in units], default=0)
    if action in ("list-units", "list-unit-files", "--failed"):
        for one in ask("list")["units"]:
            if "failed" not in (flags.get("state", ""), *flags) or one["ActiveState"] == "failed":
                print(
                    one["Id"],
                    one["LoadState"],
                    one["ActiveState"],
                    one["SubState"],
                    one["Description"],
                )
        return 0
    return max([shown(action, unit, flags) for unit in units], default=1)


def options(words):
    flags, plain = {}, []
    words = list(words)
    while words:
        word = words.pop(0)
        if word in (
            "-p",
            "--property",
            "-n",
            "--lines",
            "-u",
            "--unit",
            "-o",
            "--state",
            "--since",
            "-t",
        ):
            flags[word.lstrip("-")[:1] if not word.startswith("--") else word[2:]] = words.pop(0)
        elif word.startswith("--") and "=" in word:
            name, _, value = word[2:].partition("=")
            flags[name] = value
        elif word.startswith("-"):
            flags[word.lstrip("-")] = ""
        else:
            plain.append(word)
    return flags, plain


def change(action, unit):
    said = ask(action, unit)
    if said.get("error"):
        print(said["error"], file=sys.stderr)
        return 5 if said.get("missing") else 1
    return 0


def cat(unit):
    try:
        with open(f"/etc/systemd/system/{unit}.service") as file:
            print(f"# /etc/systemd/system/{unit}.service\n{file.read()}", end="")
    except OSError:
        print(f"No files found for {unit}.service.", file=sys.stderr)
        return 1
    return 0


def shown(action, unit, flags):
    said = ask("show", unit)
    if "unit" not in said:
        if action == "show":
            facts = {"LoadState": "not-found", "ActiveState": "inactive", "MainPID": "0"}
            wanted = flags.get("p", flags.get("property", "")) or ",".join(facts)
            for key in wanted.split(","):
                print(facts.get(key, "") if "value" in flags else f"{key}={facts.get(key, '')}")
            return 0
        print("inactive" if action == "is-active" else said["error"], file=sys.stderr)
        return 4
    facts = said["unit"]
    if action == "show":
        wanted = flags.get("p", flags.get("property", "")) or ",".join(facts)
        for key in wanted.split(","):
            print(facts.get(key, "") if "value" in flags else f"{key}={facts.get(key, '')}")
        return 0
    if action in ("is-active", "is-failed", "is-enabled"):
        print("enabled" if action == "is-enabled" else facts["ActiveState"])
        wanted = {"is-active": "active", "is-failed": "failed"}.get(action, facts["ActiveState"])
        return 0 if facts["ActiveState"] == wanted else 3 if action == "is-active" else 1
    if action == "status":
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts["since"]))
        result = f" (Result: {facts['Result']})" if facts["ActiveState"] == "failed" else ""
        print(f"{facts['Id']} - {facts['Description']}")
        print(f"     Loaded: {facts['LoadState']} ({facts['FragmentPath']}; enabled)")
        print(f"     Active: {facts['ActiveState']} ({facts['SubState']}){result} since {since}")
        if facts["MainPID"] != "0":
            print(f"   Main PID: {facts['MainPID']}")
        print()
        journal({"u": unit, "n": "10"})
        return 0 if facts["ActiveState"] == "active" else 3
    print(f"Unknown command verb {action}.", file=sys.stderr)
    return 1


def journal(flags):
    unit = (flags.get("u") or flags.get("unit") or "").removesuffix(".service")
    names = [f"{unit}.log"] if unit else sorted(os.listdir(JOURNAL))
    most = int(flags.get("n") or flags.get("lines") or 1000)
    for name in names:
        try:
            with open(f"{JOURNAL}/{name}", errors="replace") as file:
                sys.stdout.writelines(file.readlines()[-most:])
        except OSError:
            print("-- No entries --")
    return 0


if __name__ == "__main__":
    try:
        if os.path.basename(sys.argv[0]) == "journalctl":
            sys.exit(journal(options(sys.argv[1:])[0]))
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        sys.exit(0)
