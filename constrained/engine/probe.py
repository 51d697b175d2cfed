"""Tries a new GGUF file in a child process, before it is loaded here.

If a damaged file violates an assertion of llama.cpp, the process ends without an error. So a child
process loads a new file first, with little memory besides the mapped file. It reads no more of the
file than loading does, and shares the mapped pages with this process. If it succeeds, this is noted
in the cache folder, and the file is not tried again until it changes.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from constrained.engine.gguf.contents import read_sound_contents
from constrained.errors import ModelError

NO_PROBE = "CONSTRAINED_NO_PROBE"  # an environment variable; if it is set, files are trusted
TRUSTED: set[Path] = set()
"""Files that are not tried: whoever brings a file along adds it."""
TYPE, ADAPTER = "general.type", "adapter"
_SECONDS = 120  # the time limit, besides the time to read the file from a slow disk:
_BYTES_A_SECOND = 20_000_000
_CHILD = """
import json, sys
paths, folders = json.loads(sys.stdin.read())
sys.path[:] = folders
from constrained.engine.llama_files import try_file
from constrained.errors import ModelError
try:
    try_file(*paths)
except ModelError as error:
    json.dump([error.message, error.hint], sys.stdout)
"""


def probe_file(path: Path, *adapters: Path) -> None:
    """Checks that llama.cpp can load a GGUF file, of a split one the first part, with LoRA
    adapters, unless this was checked before."""
    files = (path, *adapters)
    if os.environ.get(NO_PROBE) or (path in TRUSTED and not adapters):
        return
    note = _find_note(files)
    if note is not None and note.exists():
        return
    if read_sound_contents(path).text(TYPE) == ADAPTER:
        hint = "Name the model, and give the adapter with it: lora=[...], --lora FILE"
        raise ModelError(f"{path} is an adapter for a model, not a model", hint=hint)
    for adapter in adapters:
        read_sound_contents(adapter)
    _try_in_child(*files)
    if note is not None:
        # Without the note, the next process only tries the file once more.
        with suppress(OSError):
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            note.touch(mode=0o600)


def _find_note(files: Sequence[Path]) -> Path | None:
    """Returns the path of the note for these files; None if there is no cache folder."""
    try:
        facts: list[str | int] = []
        for path in files:
            found = path.stat()
            facts += [str(path.resolve()), found.st_size, found.st_mtime_ns, found.st_ino]
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        llama = version("llama-cpp-python")
    except (OSError, PackageNotFoundError, RuntimeError):
        return None
    name = hashlib.sha256(json.dumps([*facts, llama]).encode()).hexdigest()
    return home / "constrained" / "probed" / name


def _try_in_child(*files: Path) -> None:
    if not sys.executable:  # an embedded interpreter cannot start another one
        return
    name = " with ".join(map(str, files))
    limit = _SECONDS + sum(file.stat().st_size for file in files) / _BYTES_A_SECOND
    command = [sys.executable, "-c", _CHILD]
    paths = json.dumps([[str(file.resolve()) for file in files], sys.path])
    try:
        done = subprocess.run(
            command,
            input=paths,
            text=True,
            capture_output=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        message = f"{name} cannot be loaded: llama.cpp was still busy after {limit:.0f} seconds"
        raise ModelError(message, hint=_make_hint()) from e
    if done.returncode < 0:
        end = signal.Signals(-done.returncode).name
        message = f"{name} cannot be loaded: llama.cpp ends with {end}"
        lines = [line for line in done.stderr.splitlines() if "GGML_ASSERT" in line]
        if lines:
            message += f", {lines[0].strip()}"
        raise ModelError(message, hint=_make_hint())
    if done.stdout:
        message, hint = json.loads(done.stdout)
        raise ModelError(message, hint=hint or _make_hint())


def _make_hint() -> str:
    return f"The file is damaged: download it again ({NO_PROBE}=1 loads it anyway)"
