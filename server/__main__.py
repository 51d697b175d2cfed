"""`python -m server`: as `constrained serve`, in a checkout that is not installed, too."""

import sys

from constrained.cli import main
from server import command

sys.exit(main(["serve", *sys.argv[1:]], commands=(command,)))
