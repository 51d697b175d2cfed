"""Questions to the machine and to a file, before llama.cpp is loaded."""

import ctypes
import os
from pathlib import Path

from constrained.errors import ModelError

GGUF = b"GGUF"  # what such a file begins with
MMAP_THRESHOLD, LARGE = -3, 1 << 20  # mallopt(3): M_MMAP_THRESHOLD; bytes
CPU = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def physical_cores() -> int:
    """Returns how many cores this process may use; two hardware threads of one core count once."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cpus = os.sched_getaffinity(0)
    try:
        return len({Path(CPU.format(cpu)).read_text() for cpu in cpus})
    except OSError:
        return len(cpus)


def return_large_blocks() -> bool:
    """For a process that lives long: glibc gives blocks of 1 MiB and more back to the system as
    soon as they are free.

    Left alone, it takes larger and larger ones from the heap, where states of sequences leave holes
    behind.

    Returns:
        False where there is another C library; nothing has changed then.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGE))


def check_gguf(path: Path) -> None:
    """Raises ModelError if there is no file that can be read and starts as a GGUF does."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF))
    except OSError as error:
        hint = "Check the path of the model"
        raise ModelError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    if magic != GGUF:
        hint = "Convert the model to GGUF, or download it in that format"
        raise ModelError(f"{path} is not a GGUF file", hint=hint)
