"""Keys by name, as `Input.dispatchKeyEvent` wants them."""

from typing import Any

from hermes_agent.core.errors import ToolError

_MODIFIERS = {"alt": 1, "control": 2, "ctrl": 2, "meta": 4, "command": 4, "cmd": 4, "shift": 8}
_NAMED: dict[str, tuple[str, int, str]] = {
    "enter": ("Enter", 13, "\r"), "return": ("Enter", 13, "\r"), "tab": ("Tab", 9, ""),
    "escape": ("Escape", 27, ""), "esc": ("Escape", 27, ""), "backspace": ("Backspace", 8, ""),
    "delete": ("Delete", 46, ""), "insert": ("Insert", 45, ""), "home": ("Home", 36, ""),
    "end": ("End", 35, ""), "pageup": ("PageUp", 33, ""), "pagedown": ("PageDown", 34, ""),
    "arrowleft": ("ArrowLeft", 37, ""), "left": ("ArrowLeft", 37, ""),
    "arrowup": ("ArrowUp", 38, ""), "up": ("ArrowUp", 38, ""),
    "arrowright": ("ArrowRight", 39, ""), "right": ("ArrowRight", 39, ""),
    "arrowdown": ("ArrowDown", 40, ""), "down": ("ArrowDown", 40, ""),
    **{f"f{number}": (f"F{number}", 111 + number, "") for number in range(1, 13)},
}  # fmt: skip


def key_events(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A key going down and up: `Enter`, `a`, `Control+Shift+k`."""
    *held, key = _parts(name)
    modifiers = 0
    for word in held:
        if word.lower() not in _MODIFIERS:
            raise _unknown(name)
        modifiers |= _MODIFIERS[word.lower()]
    if key.lower() in {"space", " "}:
        known = {"key": " ", "code": "Space", "windowsVirtualKeyCode": 32}
        text = " "
    elif key.lower() in _NAMED:
        code, number, text = _NAMED[key.lower()]
        known = {"key": code, "code": code, "windowsVirtualKeyCode": number}
    elif len(key) == 1:
        known, text = _letter(key), key
    else:
        raise _unknown(name)
    event = {**known, "modifiers": modifiers}
    plain = text and not modifiers & ~8  # a shortcut types nothing
    down = {**event, "type": "keyDown", "text": text} if plain else {**event, "type": "rawKeyDown"}
    return down, {**event, "type": "keyUp"}


def _parts(name: str) -> list[str]:
    """`Control++` is the plus key."""
    if name.endswith("+"):
        return [*(part for part in name[:-1].split("+") if part), "+"]
    return name.split("+")


def _letter(key: str) -> dict[str, Any]:
    upper = key.upper()
    if upper.isascii() and upper.isalpha():
        return {"key": key, "code": f"Key{upper}", "windowsVirtualKeyCode": ord(upper)}
    if key.isascii() and key.isdigit():
        return {"key": key, "code": f"Digit{key}", "windowsVirtualKeyCode": ord(key)}
    return {"key": key}


def _unknown(name: str) -> ToolError:
    return ToolError(
        f"no key called {name!r}",
        "one character, or Enter, Tab, Escape, Backspace, Delete, ArrowDown, F5 …, with Control+, "
        "Shift+, Alt+ or Meta+ before it",
        "changed",
    )
