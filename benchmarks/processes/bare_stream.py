"""A server that does nothing but send: what a thread, an event loop, the network and the client of
a measurement take by themselves.

    python -m benchmarks.processes.bare_stream TOKENS PAUSE OUT --port PORT

A thread has the event loop send a character, so many times, with so many milliseconds between
them; when it had each of them, is written down at the end.
"""

import argparse
import asyncio
import json
import socket
import threading
import time
from pathlib import Path

HEALTHY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class BareStream(asyncio.Protocol):
    """One connection: each request but one for /health begins the stream.

    Args:
        tokens: characters of the stream.
        pause: seconds in front of each.
        out: the file that gets the times.
    """

    def __init__(self, tokens: int, pause: float, out: Path):
        self._tokens = tokens
        self._pause = pause
        self._out = out
        self._is_sending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remembers where to write, without delay."""
        assert isinstance(transport, asyncio.WriteTransport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        """Answers."""
        if data.startswith(b"GET /health"):
            self._transport.write(HEALTHY)
        elif not self._is_sending:  # else it is the body
            self._is_sending = True
            self._transport.write(HEAD)
            threading.Thread(target=self._send).start()

    def _send(self) -> None:
        times = dict[int, float]()
        for number in range(self._tokens):
            time.sleep(self._pause)
            times[number] = time.monotonic()
            call = {"index": 0, "function": {"arguments": chr(ord("a") + number % 26)}}
            chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
            event = b"data: %b\n\n" % json.dumps(chunk).encode()
            chunk = b"%x\r\n%b\r\n" % (len(event), event)
            self._loop.call_soon_threadsafe(self._transport.write, chunk)
        self._out.write_text(json.dumps(times))
        self._loop.call_soon_threadsafe(self._transport.write, END)


async def serve(options: argparse.Namespace) -> None:
    """Serves for ever."""
    server = await asyncio.get_running_loop().create_server(
        lambda: BareStream(options.tokens, options.pause / 1e3, options.out),
        "127.0.0.1",
        options.port,
    )
    await server.serve_forever()


def main() -> None:
    """Reads the arguments and serves."""
    parser = argparse.ArgumentParser(description="A server that does nothing but send.")
    parser.add_argument("tokens", type=int)
    parser.add_argument("pause", type=float, help="milliseconds")
    parser.add_argument("out", type=Path)
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
