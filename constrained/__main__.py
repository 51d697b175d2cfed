"""The start of the command `constrained`, and of `python -m constrained`. If importing the program
fails or is interrupted, one line is printed instead of a traceback."""

import os
import signal
import sys

INTERRUPTED = 130
TERMINATED = 143
MESSAGE = b"constrained: interrupted\n"


def main() -> int:
    """Runs the command line; see `constrained.cli.parser.main`.

    Returns:
        the exit code; 2 where a package has the name of one of ours, 130 after Ctrl-C.

    Raises:
        SystemExit: SIGTERM has come; with 143.
    """
    raises = signal.getsignal(signal.SIGINT)
    catches = raises is signal.default_int_handler  # not where nohup has it ignored
    if catches:
        # Nothing has to be put away yet, and no import has to carry an exception out.
        signal.signal(signal.SIGINT, _end)
    _open_streams()
    try:
        import constrained.errors.own_packages  # noqa: F401  before whatever needs `grammars`
    except ImportError as error:
        print(f"constrained: error: {error}", file=sys.stderr)
        return 2
    from constrained.cli import parser as cli

    def start() -> None:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminate)
        if catches:
            signal.signal(signal.SIGINT, raises)

    code = cli.main(start=start)
    if catches:
        signal.signal(signal.SIGINT, _end)  # while threads end
    return code


def _end(*_: object) -> None:
    """Ends the process at once."""
    os.write(2, MESSAGE)
    os._exit(INTERRUPTED)


def _terminate(*_: object) -> None:
    """Ends the command as Ctrl-C does, with everything that it has started, such as MCP servers. A
    second signal ends the process at once."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise SystemExit(TERMINATED)


def _open_streams() -> None:
    """Opens stdin, stdout and stderr if they are closed, so that reading and printing does nothing.
    In this order, each gets the number that was its own."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115  until the process ends
            setattr(sys, name, null)


if __name__ == "__main__":
    raise SystemExit(main())
