"""The machine: its cores and memory, and the heap of this process. Does not import llama.cpp."""

import ctypes
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from constrained.engine.files.input_files import open_input
from constrained.errors import ModelError

GGUF = b"GGUF"  # the beginning of such a file
# mallopt(3): M_MMAP_THRESHOLD in bytes, M_ARENA_MAX.
MMAP_THRESHOLD, LARGE = -3, 1 << 20
ARENA_MAX, ARENAS = -8, 2
MUCH_FREE = 16 << 20  # bytes
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
    """Returns how many bytes this process can still allocate without swapping, within the limit of
    its container if there is one; None if the system is not Linux."""
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


def bound_heap() -> bool:
    """Configures glibc to keep less free memory, for a process that runs long; returns False if the
    C library is not glibc. Blocks of 1 MiB and more return to the system when they are freed: by
    default, glibc raises this threshold, and states of sequences leave holes in the heap. All
    threads share two heaps: by default, each thread that compiles grammars may get its own heap,
    with its own unused memory."""
    mallopt = _find_in_libc("mallopt")
    return bool(mallopt and mallopt(MMAP_THRESHOLD, LARGE) and mallopt(ARENA_MAX, ARENAS))


def _find_in_libc(name: str) -> Any:
    """Returns a function of the C library; None: it has no such one."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None


@dataclass(frozen=True)
class HeapSize:
    """The bytes that the C library has allocated from the system: in use, and free but not
    returned."""

    used: int
    free: int


class _MallocInfo(ctypes.Structure):
    """mallinfo2(3)."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def measure_heap() -> HeapSize | None:
    """Returns the heap of this process, without small Python objects; None if the C library is not
    glibc 2.33 or later."""
    mallinfo = _find_in_libc("mallinfo2")
    if mallinfo is None:
        return None
    mallinfo.restype = _MallocInfo
    info = mallinfo()
    return HeapSize(used=info.uordblks + info.hblkhd, free=info.fordblks)


def return_free_memory() -> bool:
    """Returns free pages of the heap to the system (about 10 ms for 100 MB), and whether there were
    any; False if the C library is not glibc."""
    trim = _find_in_libc("malloc_trim")
    return bool(trim and trim(0))


def keep_returning(seconds: float = 30) -> None:
    """Starts a thread that checks every `seconds` whether there is much free memory, for example
    after a large request, and returns it to the system."""

    def watch() -> None:
        while True:
            time.sleep(seconds)
            heap = measure_heap()
            if heap is None:
                return
            if heap.free > MUCH_FREE:
                return_free_memory()

    threading.Thread(target=watch, name="memory", daemon=True).start()


def check_gguf(path: Path, kind: str = "model") -> None:
    """Raises ModelError if a file cannot be read, or does not start as a GGUF file does; `kind` is
    for its hint."""
    try:
        with open_input(path, regular=True) as file:
            magic = file.read(len(GGUF))
    except OSError as error:
        hint = f"Check the path of the {kind}"
        raise ModelError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    if magic != GGUF:
        hint = f"Convert the {kind} to GGUF, or download it in that format"
        raise ModelError(f"{path} is not a GGUF file", hint=hint)
