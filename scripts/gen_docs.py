"""Write docs/reference, and what the model is shown of the tools, from the code. `--check`
writes nothing and fails when a page is stale."""

import argparse
import ast
import inspect
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from hermes_agent.cli.commands import COMMANDS
from hermes_agent.cli.help.manual import manual_page
from hermes_agent.core import events
from hermes_agent.core.settings import root, services, sources, terminals
from hermes_agent.core.tools import Tool
from hermes_agent.models.catalogue.services import SERVICES
from hermes_agent.policy.files.loader import Policies
from hermes_agent.runtime.tools.builtin import DATA, TABLE, described, load_tools

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
NOTE = "<!-- Made from the code by `make docs`; change the code, not this page. -->"


def sentences(module: types.ModuleType) -> dict[tuple[str, str], str]:
    """The string under each field of each class: Python forgets it, the source has it."""
    found = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, below in zip(node.body, node.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[node.name, name] = " ".join(text.split())
    return found


def type_name(kind: Any) -> str:
    """A type as a reader would write it, without the modules it comes from."""
    if get_origin(kind) is Annotated:
        base, *limits = get_args(kind)
        said = [f"{sign} {value}" for limit in limits for sign, value in _limits(limit)]
        return f"{type_name(base)} ({', '.join(said)})" if said else type_name(base)
    if get_origin(kind) in (types.UnionType, Union):
        return " | ".join(type_name(each) for each in get_args(kind))
    if kind is type(None):
        return "None"
    if get_args(kind):
        inner = ", ".join(
            type_name(each) if isinstance(each, type) or get_args(each) else repr(each)
            for each in get_args(kind)
        )
        return f"{getattr(kind, '__name__', str(get_origin(kind)))}[{inner}]".replace(
            "Ellipsis", "..."
        )
    return getattr(kind, "__name__", str(kind))


def _limits(limit: Any) -> Iterator[tuple[str, Any]]:
    for name, sign in (("gt", "above"), ("ge", "at least"), ("lt", "below"), ("le", "at most")):
        if getattr(limit, name, None) is not None:
            yield sign, getattr(limit, name)


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return ""
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return f"`{value!r}`"


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def setting_entries(
    kind: type[Struct], said: Mapping[tuple[str, str], str], prefix: str = ""
) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        name, text = prefix + field.name, said[kind.__name__, field.name]
        if is_struct(field.type):
            yield f"## `{name}`\n\n{text}"
            yield from setting_entries(field.type, said, f"{name}.")
            continue
        default = default_of(field)
        facts = f"`{type_name(field.type)}`" + (f", default {default}" if default else ", required")
        yield f"### `{name}`\n\n{text}\n\n{facts}"
        for inner in get_args(field.type):
            if is_struct(inner):
                yield from setting_entries(inner, said, f"{name}.NAME.")


def settings_page() -> str:
    said = sentences(services) | sentences(sources) | sentences(root)
    opening = (
        "# Settings\n\n`config.yaml` in the home has this shape; a setting with a dot belongs to "
        "the group before the dot. Environment variables override it: see "
        "[environment variables](environment.md). `NAME` stands for the name of a model, with its "
        "dots and slashes: `hermes config set models.prices.openai/gpt-5.5 "
        "'{input: 1.25, output: 10}'`."
    )
    return "\n\n".join([opening, *setting_entries(root.Settings, said), *terminal_entries()])


def terminal_entries() -> Iterator[str]:
    """What may stand below a name in `terminals`, by kind."""
    said = sentences(terminals)
    yield "## Kinds of terminals\n\nThe settings below a name in `terminals`, by `kind`."
    for kind in get_args(terminals.PlaceSettings):
        lines = [f"### `kind: {kind.__struct_config__.tag}`", "", inspect.cleandoc(kind.__doc__)]
        lines += ["", "| setting | type | default | |", "|---|---|---|---|"]
        for field in msgspec.structs.fields(kind):
            if is_struct(field.type):
                for inner in msgspec.structs.fields(field.type):
                    text = said.get((field.type.__name__, inner.name), "")
                    lines.append(_row(f"{field.name}.{inner.name}", inner, text))
            else:
                text = said.get((kind.__name__, field.name), "")
                lines.append(_row(field.name, field, text))
        yield "\n".join(lines)


def _row(name: str, field: msgspec.structs.FieldInfo, text: str) -> str:
    shown = f"`{type_name(field.type)}`".replace("|", "\\|")
    return f"| `{name}` | {shown} | {default_of(field) or 'required'} | {text} |"


def event_entry(kind: type[Struct], said: Mapping[tuple[str, str], str]) -> str:
    lines = [f"### `{kind.__struct_config__.tag}`", "", inspect.cleandoc(kind.__doc__ or ""), ""]
    lines += ["| field | type | default | |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(kind):
        text = said.get((kind.__name__, field.name), "")
        shown = f"`{type_name(field.type)}`".replace("|", "\\|")
        lines.append(f"| `{field.name}` | {shown} | {default_of(field)} | {text} |")
    return "\n".join(lines)


def events_page() -> str:
    said = sentences(events)
    kept = [event_entry(kind, said) for kind in get_args(events.Event)]
    passing = [event_entry(kind, said) for kind in get_args(events.TransientEvent)]
    opening = (
        "# Events\n\nEverything a turn reports, as JSON objects whose `kind` is the heading. "
        "The local API's event stream and the library deliver exactly these events."
    )
    return "\n\n".join(
        [
            opening,
            "## Saved in the journal",
            *kept,
            "## Streamed but not saved",
            *passing,
        ]
    )


def parameter_rows(tool: Tool) -> Iterator[str]:
    schema = tool.spec.parameters
    for name, facts in schema.get("properties", {}).items():
        kinds = [facts, *facts.get("anyOf", [])]
        kind = " or ".join(str(each["type"]) for each in kinds if "type" in each)
        choices = ", ".join(f"`{choice}`" for each in kinds for choice in each.get("enum", []))
        needed = name in schema.get("required", [])
        default = "required" if needed else f"`{facts.get('default')!r}`"
        yield f"| `{name}` | {choices or kind} | {default} |"


def tool_entry(tool: Tool) -> str:
    touches = ", ".join(tool.capabilities) or "nothing"
    repeat = "yes" if tool.repeatable else "no"
    after = "Hermes finds out what happened" if tool.recover else "the call is parked"
    after = "it runs again" if tool.repeatable else after
    lines = [f"## `{tool.name}`", "", tool.spec.description, ""]
    facts = f"Toolset: {TABLE[tool.name].toolset}. Touches: {touches}. Safe to repeat: {repeat}."
    lines += [f"{facts} After a crash: {after}.", ""]
    lines += ["| argument | type | default |", "|---|---|---|", *parameter_rows(tool)]
    return "\n".join(lines)


def tools_page() -> str:
    opening = "# Tools\n\nWhat the model can do out of the box. Every call passes the gate first."
    return "\n\n".join([opening, *(tool_entry(tool) for tool in load_tools())])


def option_row(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.dest}`"
    choices = ", ".join(f"`{choice}`" for choice in action.choices or ())
    return f"| {names} | {action.help or ''}{f' ({choices})' if choices else ''} |"


def command_entries(name: str, parser: argparse.ArgumentParser, depth: int = 2) -> Iterator[str]:
    """A command with its options, then its subcommands; help itself is not worth a row."""
    rows: list[str] = []
    inner: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            said = {choice.dest: choice.help for choice in action._choices_actions}
            for word, below in action.choices.items():
                below.description = below.description or said.get(word)
                inner += command_entries(f"{name} {word}", below, depth + 1)
        elif action.dest != "help":
            rows.append(option_row(action))
    table = "\n".join(["| | |", "|---|---|", *rows]) if rows else ""
    heading = f"{'#' * depth} `{name}`"
    yield "\n\n".join(part for part in (heading, parser.description, table) if part)
    yield from inner


def commands_page() -> str:
    parts = ["# Commands\n\nWhat `hermes COMMAND --help` says, in one place."]
    for command in COMMANDS:
        _module, description, add_arguments = command.load()
        parser = argparse.ArgumentParser(description=inspect.cleandoc(description))
        add_arguments(parser)
        parts += command_entries(f"hermes {command.name}", parser)
    return "\n\n".join(parts)


def profiles_page() -> str:
    opening = (
        "# Policy profiles\n\nChosen with the setting `policy` or `HERMES_POLICY`; "
        "[the gate](../concepts/gate.md) explains the words, and [policy files](policies.md) how "
        "to write a rule. The rules in `policies/` are evaluated in this order; a rule that "
        "denies overrides all others, and a call that no rule covers needs approval."
    )
    loaded = Policies.of_home(Path("/nowhere"), Path("/nowhere")).load()
    parts = [opening]
    for file in sorted(loaded.bundled, key=lambda file: (bool(file.profile), file.name)):
        title = f"`{file.profile}`" if file.profile else "In every profile"
        extends = f" Then the rules of `{file.extends}` apply." if file.extends else ""
        parts.append(f"## {title}\n\n{file.description}{extends}")
        parts.append("\n".join(f"- {r.action} `{r.id}`: {r.reason}" for r in file.rules))
    return "\n\n".join(parts)


def services_page() -> str:
    opening = (
        "# Model services\n\nThe services that host models. A model is named `service/name`; "
        "`hermes model list --service NAME` lists those in the catalogue, and any other "
        "name of a known service works too. The key comes from the first variable that is set, "
        "also in `.env` in the home; [the guide](../guides/models.md) explains other ways. "
        "`models.services` in `config.yaml` changes a row or adds one."
    )
    lines = ["| service | speaks | key | address | another address by | quirks |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, row in SERVICES.items():
        keys = ", ".join(f"`{variable}`" for variable in row.key_variables)
        if not row.needs_key:
            keys = f"{keys} (none needed)" if keys else "none needed"
        elif row.login:
            keys += f"{', or ' if keys else ''}`hermes model login {name}`"
        quirks = ", ".join(row.quirks)
        url, other = f"`{row.url}`" if row.url else "", row.url_variable
        cells = (f"`{name}`", row.wire, keys, url, f"`{other}`" if other else "", quirks)
        lines.append(f"| {' | '.join(cells)} |")
    return f"{opening}\n\n" + "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "events.md": events_page,
    "profiles.md": profiles_page,
    "services.md": services_page,
    "settings.md": settings_page,
    "tools.md": tools_page,
}


def main(arguments: list[str]) -> int:
    pages = {REFERENCE / name: f"{NOTE}\n\n{page()}\n" for name, page in PAGES.items()}
    pages[REFERENCE / "hermes.1"] = manual_page()
    pages[DATA] = json.dumps(described(), ensure_ascii=False, indent=1) + "\n"
    if arguments == ["--check"]:
        stale = [
            path.name
            for path, text in pages.items()
            if not path.is_file() or path.read_text() != text
        ]
        if stale:
            print(f"stale: {', '.join(stale)}\nhint: make docs", file=sys.stderr)
        return 1 if stale else 0
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
