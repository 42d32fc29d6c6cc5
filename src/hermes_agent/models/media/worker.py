"""A program that transcribes audio: sound on standard input, text on standard output."""

import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

MODEL = "tiny-en"


def main() -> int:
    try:
        samples, rate = _sound(sys.stdin.buffer.read())
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(_heard(samples, rate))
    return 0


def _sound(data: bytes) -> tuple[Any, int]:
    """Mono samples, and their rate."""
    import soundfile

    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError:
        samples, rate = soundfile.read(io.BytesIO(_as_wav(data)), dtype="float32", always_2d=True)
    return samples.mean(axis=1), int(rate)


def _as_wav(data: bytes) -> bytes:
    """Converts formats that the library does not know, if ffmpeg is installed."""
    if (program := shutil.which("ffmpeg")) is None:
        raise ValueError("unknown audio format; installing ffmpeg may help")
    words = [program, "-v", "error", "-i", "pipe:0", "-ac", "1", "-ar", "16000", "-f", "wav"]
    done = subprocess.run([*words, "pipe:1"], input=data, capture_output=True, check=False)
    if done.returncode != 0 or not done.stdout:
        raise ValueError("the memo has no readable audio")
    return done.stdout


def _heard(samples: Any, rate: int) -> str:
    import moonshine_voice
    from moonshine_voice.transcriber import Transcriber

    weights = Path(moonshine_voice.__file__).parent / "assets" / MODEL
    with Transcriber(str(weights), moonshine_voice.ModelArch.TINY) as transcriber:
        transcript = transcriber.transcribe_without_streaming(samples.tolist(), rate)
    return " ".join(line.text.strip() for line in transcript.lines if line.text.strip())


if __name__ == "__main__":
    sys.exit(main())
