"""The set-up's first step: which model answers, and with which key or server."""

import argparse
import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import to_builtins

from hermes_agent.cli.home import write_setting
from hermes_agent.cli.manage.model import keys
from hermes_agent.cli.manage.setup import find
from hermes_agent.cli.manage.setup.find import FoundService
from hermes_agent.cli.manage.setup.prompts import Choice, Prompts
from hermes_agent.cli.manage.setup.trial import ServiceTester, ServiceTrial
from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.settings.services import ModelService, ServiceSettings
from hermes_agent.core.text.addresses import host_of
from hermes_agent.models.catalogue.catalogue import Catalogue
from hermes_agent.models.catalogue.services import MAKERS, OWN, SERVICES
from hermes_agent.models.registry import INSIDE
from hermes_agent.policy.secrets import Secrets

SHOWN = 20
"""Models of one service that are named; any other can be typed."""
WITHOUT = (
    Choice(
        "builtin/responder",
        "no language model: follows learned skills when something breaks on a machine; cannot "
        "hold a conversation",
    ),
    Choice(
        "scripted/demo",
        "no language model: a few fixed sentences with real commands, to see how Hermes works",
    ),
)
DRILL = (
    "`hermes drill run disk_full` breaks a small machine for practice, and the responder heals it"
)


class ChosenModel(NamedTuple):
    model: str
    trial: ServiceTrial | None = None
    cheap: str = ""
    store: bool = False
    """Whether the key, and the address of a service, are stored for Hermes."""


Pick = Callable[[], ChosenModel | None]


class ModelStep:
    def __init__(self, prompts: Prompts, home: Path, settings: Settings) -> None:
        self._prompts = prompts
        self._home = home
        self._settings = settings
        self._catalogue = Catalogue(home)
        self._tester = ServiceTester(settings, home, self._show, prompts.progress)
        self.trials: list[ServiceTrial] = []
        """All that something is known about."""
        self.stored: list[str] = []

    @property
    def working(self) -> list[ServiceTrial]:
        """What works: the model that is set first, then known services, then own servers."""

        def rank(trial: ServiceTrial) -> tuple[bool, bool, int]:
            place = MAKERS.index(name) if (name := trial.service.name) in MAKERS else len(MAKERS)
            return trial.model != self._settings.model, trial.service.own_server, place

        return sorted((trial for trial in self.trials if trial.ok), key=rank)

    @property
    def _needs_no_service(self) -> bool:
        """Whether the model that is set runs inside Hermes, so that there is nothing to test."""
        return self._settings.model.partition("/")[0] in (*INSIDE, "local")

    # looking

    def look(self, agents: bool) -> None:
        """Find everything and test it."""
        files = find.agent_files(self._home)
        if files and not agents and self._prompts.asks:
            names = ", ".join(dict.fromkeys(agent for agent, _ in files))
            self._prompts.say(f"Other agents on this machine may have keys: {names}.")
            agents = self._prompts.yes("Read their files? They stay as they are.", default=False)
        self._prompts.say("Looking at the environment, .env, the keyring and this machine.", "dim")
        found = find.services(self._home, self._settings, files if agents else [])
        self.trials = [trial for trial in self._tester.test(found) if not trial.is_absent]
        if not self.trials:
            self._prompts.say(
                "Nothing found: no API key, and no Ollama, LM Studio, vLLM or llama.cpp that "
                "answers on this machine."
            )

    def _show(self, trial: ServiceTrial) -> None:
        service, took = trial.service, f"{trial.seconds:.1f} s"
        if trial.is_absent:
            return
        if not trial.ok:
            hint = "" if service.is_guess else trial.hint
            self._prompts.mark(False, service.name, f"{trial.error} ({took})", hint)
            return
        more = len(trial.windows) - 1
        others = f" and {more} more" if more > 0 else ""
        model = trial.model.partition("/")[2]
        self._prompts.mark(True, service.name, f"{model}{others} ({took}, {service.origin})")

    # choosing

    def propose(self, store: bool) -> ChosenModel | None:
        """What a script gets: the first that works without storing a key, unless that is agreed."""
        if self._needs_no_service:
            return ChosenModel(self._settings.model)
        for trial in self.working:
            if store or not trial.service.needs_storing:
                return ChosenModel(trial.model, trial, trial.cheap, store)
        return None

    def choose(self) -> ChosenModel | None:
        """Ask until something is chosen; None when the step is skipped."""
        while True:
            rows = self._rows()
            default = 0 if self._settings.model or self.working else -1
            labels = [row for row, _ in rows]
            place = self._prompts.choose("Which model should answer?", labels, default)
            if place < 0:
                return None
            try:
                chosen = rows[place][1]()
            except HermesError as error:
                self._prompts.mark(False, "", error.message, error.hint)
                continue
            if chosen is not None:
                return chosen

    def _rows(self) -> list[tuple[Choice, Pick]]:
        current = self._settings.model
        rows: list[tuple[Choice, Pick]] = []
        for trial in self.working:
            note = self._price(trial) + (", current" if trial.model == current else "")
            rows.append((Choice(trial.model, note), partial(self._accept, trial)))
        if current and current not in [trial.model for trial in self.working]:
            note = "current" if self._needs_no_service else "current, but it does not answer"
            place = 0 if self._needs_no_service else len(rows)
            rows.insert(place, (Choice(current, note), lambda: ChosenModel(current)))
        if any(len(trial.windows) > 1 for trial in self.working):
            rows.append((Choice("another model", "of these services"), self._another))
        return [
            *rows,
            (Choice("an API key", "of a service such as Anthropic or OpenAI"), self._type_key),
            (Choice("your own server", "any OpenAI-compatible API"), self._type_address),
            (Choice("sign in", "with a code: ChatGPT, Nous, xAI"), self._sign_in),
            (Choice("none yet", "use what works without a language model"), self._without),
        ]

    def _price(self, trial: ServiceTrial) -> str:
        if trial.service.own_server:
            return f"your server at {trial.service.url}"
        facts = self._catalogue.facts(trial.model)
        if facts is None or not facts.rates:
            return "price unknown"
        return f"${facts.rates[0].input:g} in, ${facts.rates[0].output:g} out per M tokens"

    def _accept(self, trial: ServiceTrial) -> ChosenModel:
        """A model that works; asks about the cheap one, and about storing its key."""
        cheap, service = "", trial.service
        question = f"Use {trial.cheap} for routine work? It costs less."
        if trial.cheap not in ("", trial.model) and self._prompts.yes(question, default=True):
            cheap = trial.cheap
        kept = [service.key[0]] if service.key[0] else []
        kept += [f"the address {service.url}"] if service.url_origin else []
        if not kept:
            return ChosenModel(trial.model, trial, cheap)
        what = " and ".join(kept)
        if not service.needs_storing:
            self._prompts.say(
                f"Only this environment has {what}: Hermes would not have it when started from "
                "another shell or by systemd."
            )
        store = self._prompts.yes(f"Store {what} for Hermes?", default=True)
        return ChosenModel(trial.model, trial, cheap, store)

    def _another(self) -> ChosenModel | None:
        several = [trial for trial in self.working if trial.windows]
        rows = [Choice(one.service.name, f"{len(one.windows)} models") for one in several]
        place = self._prompts.choose("From which service?", rows, 0) if len(rows) > 1 else 0
        if place < 0:
            return None
        trial = several[place]
        names = [name.partition("/")[2] for name in trial.windows]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        self._prompts.say(", ".join(names[:SHOWN]) + more, "dim")
        name = self._prompts.text("model", names[0]).removeprefix(f"{trial.service.name}/")
        if name not in names:
            raise HermesError(f"{trial.service.name} does not list a model called {name!r}")
        return self._tested(trial.service, f"{trial.service.name}/{name}")

    def _tested(self, service: FoundService, model: str = "") -> ChosenModel | None:
        """What comes of one more service: it is tested before anything is stored."""
        trial = self._try(service, model)
        return self._accept(trial) if trial.ok else None

    def _try(self, service: FoundService, model: str = "") -> ServiceTrial:
        [trial] = self._tester.test([service], model)
        others = [one for one in self.trials if one.service.name != service.name]
        self.trials = [*others, trial]
        return trial

    def _environ(self) -> dict[str, str]:
        return Secrets(os.environ, self._home).beside(os.environ)

    def _type_key(self) -> ChosenModel | None:
        takes = {name: row for name, row in SERVICES.items() if row.needs_key and row.key_variables}
        self._prompts.say(", ".join(name for name in takes if name != "openai-chat"), "dim")
        name = self._prompts.text("service", MAKERS[0]).lower()
        if name not in takes:
            raise HermesError(f"no service called {name!r} takes a key")
        variable = takes[name].key_variables[0]
        if os.environ.get(variable):
            raise HermesError(
                f"{variable} is set in this environment and overrides any other key",
                f"`unset {variable}`, then run `hermes setup model` again",
            )
        secret = keys.read_secret(f"  key for {name} (not shown): ")
        environ = {**self._environ(), variable: secret}
        typed = FoundService(name, environ, "your input", (variable, secret))
        return self._tested(typed) if secret else None

    def _type_address(self) -> ChosenModel | None:
        written = self._prompts.text("address, such as http://gpu1:8000/v1")
        if not written:
            return None
        url = base_url(written)
        trial = self._try(self._server(url))
        if trial.kind in ("bad_request", "garbage", "no_model") and not urlsplit(url).path:
            url = f"{url}/v1"
            trial = self._try(self._server(url))
        if trial.kind == "auth" and trial.service.settings:
            name = trial.service.name
            variable = f"{re.sub(r'[^A-Z0-9]', '_', name.upper())}_API_KEY"
            if secret := keys.read_secret(f"  key for {url} (not shown): "):
                trial = self._try(self._server(url, (variable, secret)))
        if not trial.ok:
            return None
        others = len(trial.windows) > 1
        if others and not self._prompts.yes(f"Use {trial.model}?", default=True):
            return self._another()
        return self._accept(trial)

    def _server(self, url: str, key: tuple[str, str] = ("", "")) -> FoundService:
        """The service with this address: a built-in one, one of the settings, or a new one."""
        services = self._settings.models.services
        known = {SERVICES[name].url: name for name in OWN if name not in services}
        known |= {(row.url or "").rstrip("/"): name for name, row in services.items()}
        settings: dict[str, Any] = {"url": url, "needs_key": bool(key[0])}
        if key[0]:
            settings["key_variables"] = (key[0],)
        host = re.sub(r"[^a-z0-9-]", "-", host_of(url)).strip("-")
        start = host if re.match(r"[a-z]", host) and host != "localhost" else "own"
        taken = {*SERVICES, *services}
        names = (start, *(f"{start}-{number}" for number in range(2, 99)))
        name = known.get(url) or next(name for name in names if name not in taken)
        environ = {**self._environ(), **({key[0]: key[1]} if key[0] else {})}
        new = {} if url in known else settings
        return FoundService(name, environ, url, key, url, own_server=True, settings=new)

    def _sign_in(self) -> ChosenModel | None:
        rows = [
            Choice(name, "ChatGPT" if name == "codex" else "")
            for name, service in SERVICES.items()
            if service.login
        ]
        place = self._prompts.choose("Sign in to which service?", rows, -1)
        if place < 0:
            return None
        name = rows[place].label
        keys.run("login", [name], argparse.Namespace(json=False))
        return self._tested(FoundService(name, self._environ(), "your sign-in"))

    def _without(self) -> ChosenModel | None:
        self._prompts.say(f"{DRILL}; `make demo` in a clone shows one from start to end.")
        place = self._prompts.choose("Which one, until you have a model?", WITHOUT, -1)
        return ChosenModel(WITHOUT[place].label) if place >= 0 else None

    # saving

    def save(self, chosen: ChosenModel) -> None:
        """Write what was chosen; the model last, so that it never lacks its service or key."""
        if chosen.trial is not None:
            service = chosen.trial.service
            new = {"url": service.url} if service.url_origin and chosen.store else service.settings
            if new:
                known = self._settings.models.services.get(service.name, ServiceSettings())
                row = {**to_builtins(known), **new}
                kept = {name: value for name, value in row.items() if value not in (None, {})}
                write_setting(f"models.services.{service.name}", json.dumps(kept))
            if service.key[0] and chosen.store:
                self.stored.append(self._store(service))
            window = chosen.trial.windows.get(chosen.model)
            if window and chosen.model not in self._catalogue.models:
                write_setting(f"models.context_tokens.{chosen.model}", str(window))
            if chosen.cheap:
                write_setting("models.uses.cheap", json.dumps([chosen.cheap]))
        write_setting("model", json.dumps(chosen.model))

    def _store(self, service: FoundService) -> str:
        """Store a key in the keyring, or in the home if there is none; returns where."""
        from hermes_agent.models.keys.keyring import installed
        from hermes_agent.models.keys.storage import store_key

        row = ModelService(key_variables=(service.key[0],))
        secret = service.key[1]
        if installed():
            try:
                return store_key(service.name, row, secret, "keyring", self._home)
            except HermesError:
                pass  # no keyring runs here, or it is locked
        return store_key(service.name, row, secret, "env-file", self._home)


def base_url(written: str) -> str:
    """The base of an API, from what somebody typed or pasted."""
    url = written if "://" in written else f"http://{written}"
    parts = urlsplit(url.split("?")[0].rstrip("/"))
    if "@" in parts.netloc:
        raise HermesError("the address has a user name or a password", "leave it out")
    if parts.scheme not in ("http", "https") or not host_of(url):
        raise HermesError(f"not a valid address: {written!r}", "such as http://gpu1:8000/v1")
    path = re.sub(r"/(chat/completions|completions|models|responses)$", "", parts.path)
    return f"{parts.scheme}://{parts.netloc}{path}"
