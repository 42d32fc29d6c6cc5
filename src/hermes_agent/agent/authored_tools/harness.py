"""Put after the lines of a written tool, and run with them in a sandbox; never imported here."""


def _hermes_trial(
    name: str, tests: list[str], imports: list[tuple[int, str]]
) -> list[dict[str, object]]:
    """What is wrong with the tool above."""
    import importlib.util
    import sys
    import traceback
    import typing

    def told(what: str, error: BaseException, file: str) -> dict[str, object]:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == file
        ]
        text = traceback.format_exception_only(error)[-1].strip()
        # The first line of the tool's is this program's own.
        return {"what": what, "text": text, "line": lines[-1] if lines[1:] else 0}

    troubles: list[dict[str, object]] = []
    for line, module in imports:
        try:
            found = module in sys.modules or importlib.util.find_spec(module) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            text = f"no module called {module!r} is installed"
            troubles.append({"what": "import", "text": text, "line": line})
    function = globals()[name]
    file = _hermes_trial.__code__.co_filename
    try:
        typing.get_type_hints(function)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        line = function.__code__.co_firstlineno
        troubles.append({**told("types", error, file), "line": line})
    for test in () if troubles else tests:
        try:
            globals()[test]()
        except BaseException as error:  # noqa: BLE001 - a test may also try to leave
            troubles.append(told(test, error, file))
    return troubles
