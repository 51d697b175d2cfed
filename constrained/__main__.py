"""The start of the command `constrained`, and of `python -m constrained`: what goes wrong while the
program is imported is one line at the terminal, not a traceback."""

import os
import sys

INTERRUPTED = 130


def main() -> int:
    """Runs the command line; see `constrained.cli.main`.

    Returns:
        the exit code; 2 where a package has the name of one of ours, 130 after Ctrl-C.
    """
    _open_streams()
    try:
        import constrained.own_packages  # noqa: F401  before whatever needs `grammars`
    except ImportError as error:
        print(f"constrained: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    try:
        from constrained import cli
    except KeyboardInterrupt:
        return INTERRUPTED
    return cli.main()


def _open_streams() -> None:
    """Opens those of stdin, stdout and stderr that were closed, so that reading and printing does
    nothing. In this order, each gets the number that was its own."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115  until the process ends
            setattr(sys, name, null)


if __name__ == "__main__":
    raise SystemExit(main())
