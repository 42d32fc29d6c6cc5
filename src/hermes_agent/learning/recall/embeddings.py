"""Similarity of meaning by the word embeddings in the package `wordllama`. Only its two data files
are used: its own loader looks for one of them in the wrong place and then downloads it."""

import asyncio
from collections.abc import Collection, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hermes_agent.core.errors import HermesError
from hermes_agent.core.installation.extras import install_hint
from hermes_agent.core.knowledge import DocKind

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENS = "tokenizers/l2_supercat_tokenizer_config.json"
TEXT_CHARS = 2_000
"""Only the beginning of a text is embedded: the mean of a long one says nothing."""


class NoSemantics(HermesError):
    """The packages for it are not installed."""


class _Model(NamedTuple):
    tokenizer: "Tokenizer"
    weights: "NDArray[float32]"


def model_folder() -> Path:
    """Raises `NoSemantics` if the model is not installed."""
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise _missing("a package that is not installed")
    folder = Path(spec.origin).parent
    for name in (WEIGHTS, TOKENS):
        if not (folder / name).is_file():
            raise _missing(f"{name} of wordllama, which is missing")
    return folder


def _missing(what: str) -> NoSemantics:
    return NoSemantics(
        f"semantic recall needs {what}; only words are matched",
        f"{install_hint('semantic')}, or set learning.semantic to false",
    )


class Embedder:
    """Embeds texts as vectors of 256 numbers. The model is loaded when it is first needed."""

    name = "wordllama-l2-supercat-256"

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A float32 vector of length 1 for each text; zeros for one without words."""
        async with self._lock:
            return await asyncio.to_thread(self._embed, texts)

    @cached_property
    def _model(self) -> _Model:
        folder = model_folder()
        try:
            import numpy as np
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        except ImportError as error:
            raise _missing(f"a package that cannot be loaded ({error})") from error

        weights = load_file(folder / WEIGHTS)["embedding.weight"]
        return _Model(Tokenizer.from_file(str(folder / TOKENS)), weights.astype(np.float32))

    def _embed(self, texts: Sequence[str]) -> list[bytes]:
        tokenizer, weights = self._model
        import numpy as np

        vectors = []
        for text in texts:
            ids = tokenizer.encode(text[:TEXT_CHARS], add_special_tokens=False).ids
            mean = weights[ids].sum(axis=0)
            length = float(np.linalg.norm(mean))
            vectors.append((mean / length if length else mean).astype(np.float32).tobytes())
        return vectors


class Vectors:
    """The vectors of all documents in memory, a kilobyte each. They may lag behind a little."""

    def __init__(self, rows: Sequence[tuple[DocKind, str, bytes]]) -> None:
        self._keys = [(kind, ref) for kind, ref, _ in rows]
        self._data = b"".join(data for _, _, data in rows)

    def near(self, query: bytes, kinds: Collection[DocKind]) -> dict[tuple[DocKind, str], float]:
        """The cosine similarity of each vector of these kinds with the query."""
        if not self._keys:
            return {}
        import numpy as np

        matrix = np.frombuffer(self._data, np.float32).reshape(len(self._keys), -1)
        # Not `@`: its threads keep spinning longer than this takes.
        found = np.einsum("ij,j->i", matrix, np.frombuffer(query, np.float32)).tolist()
        return {key: near for key, near in zip(self._keys, found, strict=True) if key[0] in kinds}
