"""Files of another machine, through the remote agent."""

import base64
import heapq
import re
from collections.abc import Iterator, Sequence

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import FileFacts, SearchMatch
from hermes_agent.terminals.command_backend import TerminalUnreachable
from hermes_agent.terminals.local import search
from hermes_agent.terminals.local.files import GREP_SECONDS, file_error, not_an_expression
from hermes_agent.terminals.remote.agent_client import AgentAnswer, RemoteAgentClient

READ_BYTES = 262_144
"""Larger files are read outside the stream."""
WRITE_BYTES = 12_000
"""Larger files are written outside the stream, which bash reads byte by byte."""
TRIES = 3


class RemoteFiles:
    _client: RemoteAgentClient

    async def read(self, path: str) -> bytes:
        answer = await self._ask(path, "read", path, str(READ_BYTES))
        if answer.words[0] == "large":
            answer = await self._ask(path, "read", path, "0", data=b"")
        return answer.blocks[0]

    async def write(self, path: str, data: bytes) -> None:
        if len(data) <= WRITE_BYTES:
            encoded = base64.b64encode(data)
            await self._ask(path, "write", path, str(len(data)), encoded)
        else:
            await self._ask(path, "write", path, str(len(data)), data=data)

    async def stat(self, path: str) -> FileFacts | None:
        answer = await self._ask(path, "stat", path, missing=True)
        if answer.trouble:
            return None
        kind, size, modified = answer.words[1:4]
        path, modified_at = _text(answer.blocks[0]), float(modified)
        match kind:
            case "file" | "folder":
                return FileFacts(path, int(size), kind, modified_at)
            case _:
                return FileFacts(path, int(size), "other", modified_at)

    async def resolve(self, path: str) -> str:
        return _text((await self._ask(path, "real", path)).blocks[0])

    async def trace(self, paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        if not paths:
            return ()
        blocks = iter((await self._ask(paths[0], "trace", *paths)).blocks)
        found = []
        for count in blocks:
            real = [_text(next(blocks)) for _ in range(int(count))]
            found.append(tuple(dict.fromkeys(real)))
        return found

    async def find(self, path: str, pattern: str, limit: int) -> Sequence[FileFacts]:
        found = [facts for _, facts in await self._files(path, pattern)]
        return heapq.nlargest(limit, found, key=lambda facts: facts.modified)

    async def grep(self, path: str, pattern: str, files: str, limit: int) -> Sequence[SearchMatch]:
        try:
            re.compile(pattern)
        except re.error as error:
            raise not_an_expression(pattern, error) from None
        found = sorted(await self._files(path, files))
        names = [facts.path for _, facts in found if facts.size <= search.LARGEST]
        data = "".join(f"{name}\0" for name in names).encode("utf-8", "surrogateescape")
        answer = await self._ask(
            pattern, "grep", pattern, str(limit), str(int(GREP_SECONDS)), data=data
        )
        if len(answer.blocks) > 1:
            raise ToolError(
                f"the search took more than {GREP_SECONDS:g} seconds", "search a smaller folder"
            )
        return list(_matches(answer.blocks[0], limit))

    async def _files(
        self, path: str, pattern: str
    ) -> list[tuple[tuple[tuple[bool, str], ...], FileFacts]]:
        """Files below a path that match the glob, each with its sort key of a walk."""
        pattern = pattern.removeprefix("./")
        fits = search.glob(pattern)
        name = pattern.rpartition("/")[2]
        plain = re.fullmatch(r"[^\\{},\[\]]*", name) and "**" not in name
        answer = await self._ask(path, "find", path, name if plain else "", data=b"")
        top = _text(answer.blocks[0])
        found = []
        for entry in _text(answer.blocks[1]).split("\0")[:-1]:
            modified, size, at = entry.split(" ", 2)
            inside = at.rpartition("/")[2] if at == top else at[len(top) :].lstrip("/")
            if not fits.fullmatch(inside):
                continue
            *folders, last = inside.split("/")
            order = (*((True, folder) for folder in folders), (False, last))
            found.append((order, FileFacts(at, int(size), "file", float(modified))))
        return found

    async def _ask(
        self,
        path: str,
        verb: str,
        *arguments: str | bytes,
        data: bytes | None = None,
        missing: bool = False,
    ) -> AgentAnswer:
        """Send a request, again when the connection was lost: all of these are repeatable."""
        if "\0" in path or any("\0" in one for one in arguments if isinstance(one, str)):
            raise ToolError(f"{path!r} is not a path", "it contains a NUL byte")
        for left in reversed(range(TRIES)):
            try:
                if data is None:
                    answer = await self._client.ask(verb, *arguments)
                else:
                    answer = await self._client.bulk(verb, *arguments, data=data)
                break
            except ConnectionError as error:
                if not left:
                    raise TerminalUnreachable(
                        f"the connection was lost: {error}", "try again"
                    ) from None
        if answer.trouble and not (missing and answer.trouble in ("missing", "part")):
            raise _trouble(answer, path)
        return answer


def _trouble(answer: AgentAnswer, path: str) -> ToolError:
    detail = _text(answer.blocks[0]) if answer.blocks else ""
    if answer.trouble == "pattern":
        return ToolError(
            f"{path!r} is a regular expression that cannot be used there: {detail}",
            "use a simpler one",
        )
    return file_error(answer.trouble, path, detail)


def _matches(data: bytes, limit: int) -> Iterator[SearchMatch]:
    for line in re.finditer(rb"([^\0]+)\0(\d+):([^\n]*)\n", data):
        if limit <= 0:
            return
        limit -= 1
        text = line[3].decode("utf-8", "replace").rstrip("\r")
        yield SearchMatch(_text(line[1]), int(line[2]), text[: search.LINE_CHARS])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
