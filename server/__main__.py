"""`python -m server`: as `constrained serve`."""

import sys

from constrained.cli import main

sys.exit(main(["serve", *sys.argv[1:]]))
