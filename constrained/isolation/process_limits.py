"""Limits that the operating system sets for this process. Imported by processes that are limited,
so it imports the standard library alone."""

import os

MIB = 2**20


def limit_memory(more: int) -> None:
    """Limits the memory of this process, and forbids files with its memory after a crash.

    Args:
        more: bytes that it may allocate beyond what it has now.

    Raises:
        ImportError: the system has no such limit (Windows).
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    whole = measure_memory() + more
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        whole = min(whole, hard)
    resource.setrlimit(resource.RLIMIT_AS, (whole, whole))


def limit_seconds(more: float) -> None:
    """Limits the processor time of this process: the system ends it with SIGXCPU.

    Args:
        more: seconds, rounded up, that it may take beyond what it has taken.

    Raises:
        ImportError: the system has no such limit (Windows).
    """
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    limit = int(used.ru_utime + used.ru_stime + more) + 1
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def measure_memory() -> int:
    """Returns the size of this process's address space in bytes; 0: the system does not say."""
    try:
        with open("/proc/self/statm") as sizes:
            pages = int(sizes.read().split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGESIZE")
