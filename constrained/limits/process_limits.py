"""Limits that the operating system sets for this process. Imported by processes that are limited,
so it imports the standard library alone."""

import os

MIB = 2**20


def limit_memory(more: int, *, with_files: bool = True) -> None:
    """Limits the memory of this process to so many bytes beyond what it has now, and forbids files
    with its memory after a crash. `with_files`: mapped files count, and addresses without memory.
    ImportError: the system has no such limit (Windows)."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kind = resource.RLIMIT_AS if with_files else resource.RLIMIT_DATA
    whole = measure_memory(with_files=with_files) + more
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        whole = min(whole, hard)
    resource.setrlimit(kind, (whole, whole))


def limit_seconds(more: float) -> None:
    """Limits the processor time of this process to so many seconds, rounded up, beyond what it has
    taken: the system ends it with SIGXCPU. ImportError: the system has no such limit (Windows)."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    limit = int(used.ru_utime + used.ru_stime + more) + 1
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def measure_memory(*, with_files: bool = True) -> int:
    """Returns the bytes of this process's memory, as `limit_memory` counts them; 0: the system does
    not say."""
    try:
        with open("/proc/self/statm") as sizes:
            pages = int(sizes.read().split()[0 if with_files else 5])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGESIZE")
