"""Saves and restores the state of a sequence in llama.cpp, and names what the state depends on."""

import ctypes
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from constrained.engine.gguf.contents import list_parts
from constrained.engine.llama_files import errors, make_failure
from constrained.engine.options import Lora
from constrained.errors import ModelError

_llama: Any = llama_cpp  # it accepts numbers, but its annotations ask for ctypes objects
WHOLE: int = llama_cpp.LLAMA_STATE_SEQ_FLAGS_NONE
# Only the recurrent state: llama.cpp can cut the keys and values of attention, but not this.
PART: int = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
PIECE, PIECES = 16 * 1024, 256  # size in bytes and number of the pieces of a file that are hashed


def state_size(context: llama_cpp.llama_context_p, sequence: int, flags: int = WHOLE) -> int:
    return _llama.llama_state_seq_get_size_ext(context, sequence, flags)


def read_state(context: llama_cpp.llama_context_p, sequence: int, flags: int = WHOLE) -> bytes:
    """Returns the state of a sequence, or with PART only its recurrent state."""
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
    flags: int,
) -> None:
    """Restores the state of `length` tokens that `read_state` returned with the same flags; with
    PART, the sequence is cut to them. ModelError: llama.cpp refuses the state, or it has another
    number of tokens. Then the state of the sequence is undefined."""
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


def fingerprint(path: Path, params: Any, *more: object, adapters: Sequence[Lora] = ()) -> str:
    """Returns a hash of everything that a state depends on: the weights (of a split file, by its
    first part), the adapters, the parameters of the context, and the version of llama.cpp. Of large
    files, only some megabytes are read. An engine without adapters has another hash than one whose
    adapters have the scale 0."""
    digest = hashlib.blake2b(digest_size=16)
    settings: dict[str, int | float] = {}
    for name, *_ in params._fields_:
        value = getattr(params, name)
        if isinstance(value, int | float):
            settings[name] = value
    digest.update(repr((llama_cpp.__version__, sorted(settings.items()), more)).encode())
    digest.update(llama_cpp.llama_print_system_info())
    try:
        for part in list_parts(path):
            for piece in _pieces(part):
                digest.update(piece)
        for adapter in adapters:
            digest.update(repr(adapter.scale).encode())
            for piece in _pieces(adapter.path):
                digest.update(piece)
    except OSError as e:
        raise ModelError(f"{e.filename or path} cannot be read: {e.strerror}") from e
    return digest.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    yield repr(size).encode()
    with path.open("rb") as file:
        for number in range(PIECES):
            file.seek(max(0, size - PIECE) * number // (PIECES - 1))
            yield file.read(PIECE)
