"""The state of a sequence in llama.cpp as bytes, and a name for everything that it depends on."""

import ctypes
import glob
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from constrained.engine.llama_files import errors, make_failure
from constrained.errors import ModelError

_llama: Any = llama_cpp  # its annotations want ctypes objects where it takes numbers
WHOLE: int = llama_cpp.LLAMA_STATE_SEQ_FLAGS_NONE
# Without the keys and values of attention, which llama.cpp can cut; a recurrent state it cannot.
PART: int = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
PIECE, PIECES = 16 * 1024, 256  # bytes and places of a file that tell it from others
SPLIT = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")


def state_size(context: llama_cpp.llama_context_p, sequence: int, flags: int = WHOLE) -> int:
    """The number of bytes that `read_state` returns."""
    return _llama.llama_state_seq_get_size_ext(context, sequence, flags)


def read_state(context: llama_cpp.llama_context_p, sequence: int, flags: int = WHOLE) -> bytes:
    """Copies the state of a sequence, or with PART what a cut of it needs and cannot take back.

    Raises:
        ModelError: llama.cpp does not give it.
    """
    errors.clear()
    size = state_size(context, sequence, flags)
    room = np.empty(size, np.uint8)
    pointer = room.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
    if _llama.llama_state_seq_get_data_ext(context, pointer, size, sequence, flags) != size:
        raise make_failure(f"llama.cpp does not give the state of sequence {sequence}")
    return room.tobytes()


def write_state(
    context: llama_cpp.llama_context_p,
    sequence: int,
    *,
    length: int,
    state: bytes,
    flags: int = WHOLE,
) -> None:
    """Gives a sequence a state that `read_state` has read, and so its first `length` tokens.

    Raises:
        ModelError: llama.cpp refuses it, or it is of another number of tokens. What the sequence
            holds then is not known.
    """
    errors.clear()
    source = np.frombuffer(state, np.uint8)
    pointer = source.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
    taken = _llama.llama_state_seq_set_data_ext(context, pointer, len(state), sequence, flags)
    if taken != len(state):
        raise make_failure(f"llama.cpp refuses the state of {len(state)} bytes")
    memory = _llama.llama_get_memory(context)
    if flags == PART and not _llama.llama_memory_seq_rm(memory, sequence, length, -1):
        raise make_failure(f"llama.cpp cannot go back to {length} tokens")
    last = _llama.llama_memory_seq_pos_max(memory, sequence)
    if last != length - 1:
        raise make_failure(f"a state of {length} tokens has {last + 1}")


def fingerprint(path: Path, params: Any, *more: object) -> str:
    """A name for what a state depends on: the weights, how the context is made, which llama.cpp.

    Of a large file it reads some megabytes, from places all over it.

    Raises:
        ModelError: the file cannot be read any more.
    """
    digest = hashlib.blake2b(digest_size=16)
    settings: dict[str, int | float] = {}
    for name, *_ in params._fields_:
        value = getattr(params, name)
        if isinstance(value, int | float):
            settings[name] = value
    digest.update(repr((llama_cpp.__version__, sorted(settings.items()), more)).encode())
    digest.update(llama_cpp.llama_print_system_info())
    try:
        for part in _parts(path):
            for piece in _pieces(part):
                digest.update(piece)
    except OSError as e:
        raise ModelError(f"{path} cannot be read: {e.strerror}") from e
    return digest.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    yield repr(size).encode()
    with path.open("rb") as file:
        for number in range(PIECES):
            file.seek(max(0, size - PIECE) * number // (PIECES - 1))
            yield file.read(PIECE)


def _parts(path: Path) -> list[Path]:
    """The files of a model that is split."""
    match = SPLIT.search(path.name)
    if not match:
        return [path]
    name = glob.escape(path.name[: match.start()])
    return sorted(path.parent.glob(f"{name}-?????-of-{match[1]}.gguf"))
