"""A server of a scripted model, as a process of its own whose memory is bounded."""

import argparse
import resource

import uvicorn

from server.app import make_app
from server.settings import Settings
from tests.scripted_model import scripted

MEMORY = 4 << 30  # bytes of addresses; stacks of threads are among them


def main() -> None:
    """Serves until it is told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    port = parser.parse_args().port
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    app = make_app(lambda: scripted("Hi."), Settings())
    uvicorn.run(app, port=port, log_level="error")


if __name__ == "__main__":
    main()
