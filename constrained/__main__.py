"""`python -m constrained` is `constrained`."""

from constrained.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
