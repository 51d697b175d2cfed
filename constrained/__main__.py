"""The start of the command `constrained`, and of `python -m constrained`: what goes wrong while the
program is imported is one line at the terminal, not a traceback."""

import sys

INTERRUPTED = 130


def main() -> int:
    """Runs the command line; see `constrained.cli.main`.

    Returns:
        the exit code; 2 where a package has the name of one of ours, 130 after Ctrl-C.
    """
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


if __name__ == "__main__":
    raise SystemExit(main())
