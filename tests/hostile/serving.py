"""A server of a scripted model, as a process of its own whose memory is bounded."""

import argparse
import resource
import socket

import uvicorn

from server.app import make_app
from server.http.listening import ACCEPTED, make_protocol, open_socket
from server.settings import Settings
from tests.scripted_model import scripted

MEMORY = 4 << 30  # bytes of addresses; stacks of threads are among them
MAX_CONNECTIONS = 100


def main() -> None:
    """Serves until it is told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--idle-timeout", type=float, default=60)
    parser.add_argument("--text", default="Hi.", help="what the model says")
    help = "bytes that the system keeps of what is sent on a connection"
    parser.add_argument("--send-buffer", type=int, help=help)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    settings = Settings(idle_seconds=options.idle_timeout)
    listening = open_socket("127.0.0.1", options.port)
    if options.send_buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer)
    config = uvicorn.Config(
        make_app(lambda: scripted(options.text), settings),
        log_level="critical",
        http=make_protocol(settings.idle_seconds, MAX_CONNECTIONS),
        ws="none",
        backlog=ACCEPTED,
    )
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
