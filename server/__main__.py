"""`python -m server`: as `constrained serve`, in a checkout that is not installed, too."""

import sys

from constrained.cli.parser import main
from server.commands import SERVE

sys.exit(main(["serve", *sys.argv[1:]], commands=(SERVE,)))
