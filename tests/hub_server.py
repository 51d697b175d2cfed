"""A Hub on the loopback: the three requests that huggingface_hub makes to download a file."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/main/(.+)")


@dataclass
class Hub:
    """Repositories, and how the server behaves; may be changed while it runs."""

    repos: dict[str, dict[str, bytes]]
    gated: set[str] = field(default_factory=set[str])
    """Repositories whose list anybody may see, and whose files need the token "secret"."""
    private: set[str] = field(default_factory=set[str])
    cuts: int = 0
    """So many further downloads break off in the middle."""
    damage: int = 0
    """In so many further downloads a bit is wrong."""
    resumed: list[int] = field(default_factory=list[int])
    """The bytes at which downloads were taken up."""
    status: int = 0
    """If not 0, every request is answered with it."""
    requests: list[str] = field(default_factory=list[str])
    url: str = ""

    def commit(self, repo: str) -> str:
        """The version of a repository: another one where a file differs."""
        files = sorted(self.repos[repo].items())
        return hashlib.sha1(b"".join(name.encode() + data for name, data in files)).hexdigest()


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Runs the server in a thread."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        if self.hub.status:
            self._send(self.hub.status)
        elif path.startswith("/api/models/"):
            self._list(path.removeprefix("/api/models/"))
        elif match := RESOLVE.fullmatch(path):
            self._resolve(match[1], match[2])
        elif path.startswith("/cdn/"):
            _, _, user, name, file = path.split("/", 4)
            self._file(self.hub.repos[f"{user}/{name}"][file])
        else:
            self._send(404)

    @property
    def _is_allowed(self) -> bool:
        return self.headers.get("Authorization") == "Bearer secret"

    def _list(self, repo: str) -> None:
        files = self.hub.repos.get(repo)
        if files is None or (repo in self.hub.private and not self._is_allowed):
            self._send(401, {"X-Error-Code": "RepoNotFound"})
            return
        siblings: list[dict[str, Any]] = []
        for name, data in files.items():
            sha256 = hashlib.sha256(data).hexdigest()
            lfs = {"size": len(data), "sha256": sha256, "pointerSize": 1}
            siblings.append({"rfilename": name, "size": len(data), "lfs": lfs})
        info = {"id": repo, "modelId": repo, "sha": self.hub.commit(repo), "siblings": siblings}
        self._send(200, {"Content-Type": "application/json"}, json.dumps(info).encode())

    def _resolve(self, repo: str, file: str) -> None:
        """Files lie on another server, as large ones do at the real Hub."""
        data = self.hub.repos.get(repo, {}).get(file)
        if data is None:
            self._send(404, {"X-Error-Code": "EntryNotFound"})
        elif repo in self.hub.gated and not self._is_allowed:
            self._send(403, {"X-Error-Code": "GatedRepo"})
        else:
            headers = {
                "X-Repo-Commit": self.hub.commit(repo),
                "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"',
                "X-Linked-Size": str(len(data)),
                "Location": f"{self.hub.url.replace('127.0.0.1', 'localhost')}/cdn/{repo}/{file}",
            }
            self._send(302, headers)

    def _file(self, data: bytes) -> None:
        start = 0
        if self.hub.damage:
            self.hub.damage -= 1
            data = data[:-1] + bytes([data[-1] ^ 1])
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(match[1])
            self.hub.resumed.append(start)
        rest = data[start:]
        headers = {"Content-Length": str(len(rest))}
        headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        if self.hub.cuts:
            self.hub.cuts -= 1
            self.close_connection = True
            self._send(206 if start else 200, headers, rest[: len(rest) // 2])
        else:
            self._send(206 if start else 200, headers, rest)

    def _send(self, status: int, headers: dict[str, str] | None = None, data: bytes = b"") -> None:
        self.send_response(status)
        headers = {"Content-Length": str(len(data))} | (headers or {})
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)
