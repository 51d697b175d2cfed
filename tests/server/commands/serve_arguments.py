"""The command line of `serve`, as it is read."""

import argparse

from server.commands.serve import add


def read(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add(parser)
    return parser.parse_args(arguments)
