"""Questions to the machine and to a file, before llama.cpp is loaded."""

import ctypes
import os
from pathlib import Path

from constrained.errors import ModelError

GGUF = b"GGUF"  # what such a file begins with
MMAP_THRESHOLD, LARGE = -3, 1 << 20  # mallopt(3): M_MMAP_THRESHOLD; bytes
CGROUP = Path("/sys/fs/cgroup")
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


def available_memory() -> int | None:
    """The bytes that this process may still take without others being swapped out, in its
    container if it is in one; None where the system does not tell (it is no Linux)."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
    available = free * 1024
    try:
        limit = int((CGROUP / "memory.max").read_text(encoding="ascii"))  # or the word max
        used = int((CGROUP / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return available
    return min(available, max(0, limit - used))


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
