"""Set up Hermes: find a model, choose what it may do, connect a channel, and start.

hermes setup            all steps, then the chat
hermes setup model      only the model: keys and servers are found and tested
hermes setup policy     only what Hermes may do without asking
hermes setup channel    only a way to reach Hermes by chat or e-mail

Every step can be skipped and repeated; Enter keeps the current value. Ctrl-C leaves at any time; a
step is saved when it is done, or not at all. Each service is tested with one small question, which
costs a fraction of a cent."""

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.home import home_folder, write_setting
from hermes_agent.cli.manage.setup import find
from hermes_agent.cli.manage.setup.model import DRILL, ModelStep
from hermes_agent.cli.manage.setup.prompts import Choice, Prompts
from hermes_agent.cli.output.formatting import print_json
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.root import Settings
from hermes_agent.host.inspect import home_trouble

STEPS = {
    "model": "which model answers you",
    "policy": "what Hermes may do without asking",
    "channel": "how to reach Hermes, besides this terminal",
}
SANDBOX = "sandbox"
PROFILES = ("careful", "operate", "observe", SANDBOX)
"""The profiles of Hermes for everyday work; others are those in the home."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("step", nargs="?", default="", metavar="STEP", help=", ".join(STEPS))
    parser.add_argument(
        "--yes",
        action="store_true",
        help="accept every suggestion; do not ask, do not open the chat",
    )
    parser.add_argument(
        "--store-keys", action="store_true", help="store the key that is used in the home"
    )
    parser.add_argument(
        "--agents", action="store_true", help="look for keys in the files of other agents, too"
    )
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.step and options.step not in STEPS:
        raise UsageError(f"no step called {options.step!r}", f"steps: {', '.join(STEPS)}")
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not options.yes and (options.json or not has_terminal):
        why = "--json asks nothing" if options.json else "no terminal to prompt on"
        raise UsageError(why, "--yes accepts every suggestion; --json reports what was found")
    home = home_folder()
    if trouble := home_trouble(home):
        raise HermesError(*trouble)
    setup = Setup(Prompts(asks=not options.yes, quiet=options.json), home, options)
    try:
        code = setup.run([options.step] if options.step else list(STEPS))
    except (KeyboardInterrupt, EOFError):
        kept = setup.kept()
        print(f"\n\nLeft the set-up; {kept}. `hermes setup` starts it again.", file=sys.stderr)
        return 130
    return code if options.step or options.json else code or setup.finish()


_REPORTED = ("model", "cheap", "seconds", "error", "hint")


class Setup:
    def __init__(self, prompts: Prompts, home: Path, options: argparse.Namespace) -> None:
        self._prompts = prompts
        self._home = home
        self._options = options
        self._saved: list[str] = []
        self._declined: list[str] = []
        """Imports that can be made later."""
        self._report: dict[str, Any] = {"home": str(home), "found": [], "chosen": {}, "stored": []}

    def kept(self) -> str:
        return f"saved: {', '.join(self._saved)}" if self._saved else "nothing was changed"

    def run(self, steps: list[str]) -> int:
        self._prompts.say("Hermes set-up", "bold", indent=0)
        home = find.short(self._home)
        self._prompts.say(f"Home {home}. Ctrl-C leaves; a step is saved when it is done.", "dim")
        self._offer_import(asks=self._prompts.asks and len(steps) > 1)
        acts = {"model": self._model, "policy": self._policy, "channel": self._channel}
        code = 0
        for number, step in enumerate(steps, 1):
            place = f"{number}/{len(steps)}  " if len(steps) > 1 else ""
            self._prompts.title(f"{place}{step.capitalize()}", STEPS[step])
            code = max(code, acts[step]())
        if self._options.json:
            print_json(self._report)
        return code

    def _offer_import(self, *, asks: bool) -> None:
        """Offer to import the homes of other agents, or name them."""
        from hermes_agent.host.foreign import OURS, found_homes

        peers = list(found_homes(str(Path.home())))
        self._report["import"] = [{"agent": name, "home": home} for name, home in peers]
        for name, home in peers:
            place, is_first = find.short(Path(home)), not (self._home / OURS).exists()
            brings = f"`hermes import {place}` brings its memory, skills and settings"
            if not asks:
                self._prompts.say(f"{name} was used here: {brings}.")
                continue
            question = f"{name} was used here. Import from {place} now? You see the plan first."
            if self._prompts.yes(question, default=is_first):
                self._import(home)
            else:
                self._declined.append(brings)

    def _import(self, home: str) -> None:
        from hermes_agent.cli.manage.imports import command

        parser = argparse.ArgumentParser()
        command.arguments(parser)
        try:
            if command.run(parser.parse_args([home])) == 0:
                self._saved.append(f"what came from {find.short(Path(home))}")
        except command.ImportInterrupted:
            self._saved.append(f"part of what is in {find.short(Path(home))}")
            raise
        except HermesError as error:
            self._prompts.mark(False, "import", error.message, error.hint)

    def _settings(self) -> Settings:
        from hermes_agent.host.config import load_settings

        return load_settings(self._home / "config.yaml", {})

    # steps

    def _model(self) -> int:
        settings, asks = self._settings(), self._prompts.asks
        step = ModelStep(self._prompts, self._home, settings)
        step.look(self._options.agents)
        store = bool(self._options.store_keys)
        if self._saved and step.working and step.working[0].model == settings.model:
            self._prompts.say(f"New sessions use {settings.model}, as imported.", "green")
            return 0
        chosen = step.choose() if asks else step.propose(store)
        self._report["found"] = [
            {
                "service": one.service.name, "from": one.service.origin, "ok": one.ok,
                "needs_storing": one.service.needs_storing, "models": len(one.windows),
                **{name: getattr(one, name) for name in _REPORTED},
            }
            for one in step.trials
        ]  # fmt: skip
        if chosen is None:
            return self._no_model(step, settings)
        with _uninterrupted():
            step.save(chosen)
            self._saved.append(f"model {chosen.model}")
        self._report["chosen"] |= {"model": chosen.model, "cheap": chosen.cheap}
        self._report["stored"] = step.stored
        cheap = f", and {chosen.cheap} for routine work" if chosen.cheap else ""
        self._prompts.say(f"New sessions use {chosen.model}{cheap}.", "green")
        for where in step.stored:
            self._prompts.say(f"The key is stored: {where}.", "green")
        key = chosen.trial.service.key[0] if chosen.trial else ""
        if key and not chosen.store:
            self._prompts.say(f"{key} is not stored: Hermes needs it in its environment.")
        from hermes_agent.cli.manage.model.command import variable_warning

        for line in variable_warning():
            self._prompts.say(line)
        return 0

    def _no_model(self, step: ModelStep, settings: Settings) -> int:
        stays = f"Keeping the model {settings.model}" if settings.model else "No model yet"
        if self._prompts.asks:
            self._prompts.say(f"{stays}; `hermes setup model` chooses one at any time.", "dim")
            return 0
        waiting = [one for one in step.working if one.service.needs_storing]
        hint = "`hermes model key SERVICE` stores a key; builtin/responder needs none"
        if waiting:
            hint = f"--store-keys agrees to store {waiting[0].service.origin} in {self._home}"
        self._report |= {"error": f"no model was chosen: none answered. {stays}", "hint": hint}
        self._prompts.say(f"{self._report['error']}\nhint: {hint}")
        return 1

    def _policy(self) -> int:
        from hermes_agent.policy.files.loader import Policies

        current = self._settings().policy
        policies = Policies.of_home(self._home, Path.home()).load()
        own = {file.profile for file in policies.own if file.profile}
        names = [*PROFILES, *sorted(own - {*PROFILES})]
        mark = "(default) " if current == Settings().policy else "(current) "
        rows = [
            Choice(name, mark * (name == current) + _first_sentence(policies.profiles[name]))
            for name in names
        ]
        default = names.index(current) if current in names else -1
        place = self._prompts.choose("How much may Hermes do without asking?", rows, default)
        chosen = names[place] if place >= 0 else current
        if chosen == SANDBOX != current and not self._prompts.yes(
            "Everything would run without asking, deletions included. Is this machine disposable?",
            default=False,
        ):  # fmt: skip
            chosen = current
        if chosen != current:
            write_setting("policy", f'"{chosen}"')
            self._saved.append(f"policy {chosen}")
        self._report["chosen"]["policy"] = chosen
        self._prompts.say(f"New sessions run under {chosen}.", "green")
        return 0

    def _channel(self) -> int:
        from hermes_agent.gateway.registry import ChannelRegistry

        channels = self._settings().channels
        manifests = ChannelRegistry(home=self._home).manifests()
        rows = [
            Choice(name, "(set up) " * (name in channels) + _first_sentence(one.about))
            for name, one in sorted(manifests.items())
        ]
        self._report["chosen"]["channels"] = sorted(channels)
        place = self._prompts.choose("Which one?", rows, -1)
        if place < 0:
            self._prompts.say("`hermes setup channel` adds one at any time.", "dim")
            return 0
        from hermes_agent.cli.manage.gateway.setup import setup

        name = rows[place].label
        asked = argparse.Namespace(channel=name, given=[], home="", no_test=False, json=False)
        try:
            code = setup(asked)
        except HermesError as error:
            self._prompts.mark(False, name, error.message, error.hint)
            return 1 if self._options.step else 0
        self._saved.append(f"channel {name}")
        return code if self._options.step else 0

    def finish(self) -> int:
        """Open the chat, or say what can be done without a model."""
        model = self._settings().model
        if not self._prompts.asks:
            self._prompts.say(f"\nReady: `hermes` opens the chat with {model}.")
            return 0
        if not model:
            self._prompts.title("Ready", "without a model")
            self._prompts.say(f"{DRILL}. `hermes setup model` chooses a model.")
            return 0
        self._prompts.title("Ready", "the chat opens; /help lists its commands")
        for brings in self._declined:
            self._prompts.say(f"{brings}.", "dim")
        from hermes_agent.cli.actions import connect
        from hermes_agent.cli.talk.chat.command import converse

        return converse(connect())


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".") + "."


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: what is written together is written whole."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
