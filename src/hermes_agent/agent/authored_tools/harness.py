"""Appended to an authored tool's source and run with it in a sandbox; never imported here."""


def _hermes_trial(
    name: str, tests: list[str], imports: list[tuple[int, str]]
) -> list[dict[str, object]]:
    """Test the tool above; returns its problems."""
    import importlib.util
    import sys
    import traceback
    import typing

    def problem(what: str, error: BaseException, file: str) -> dict[str, object]:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == file
        ]
        text = traceback.format_exception_only(error)[-1].strip()
        # The first frame in the file is this function's own.
        return {"what": what, "text": text, "line": lines[-1] if lines[1:] else 0}

    problems: list[dict[str, object]] = []
    for line, module in imports:
        try:
            found = module in sys.modules or importlib.util.find_spec(module) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            text = f"no module called {module!r} is installed"
            problems.append({"what": "import", "text": text, "line": line})
    function = globals()[name]
    file = _hermes_trial.__code__.co_filename
    try:
        typing.get_type_hints(function)
    except Exception as error:  # noqa: BLE001 - reported, whatever it is
        line = function.__code__.co_firstlineno
        problems.append({**problem("types", error, file), "line": line})
    for test in () if problems else tests:
        try:
            globals()[test]()
        except BaseException as error:  # noqa: BLE001 - a test may raise SystemExit
            problems.append(problem(test, error, file))
    return problems
