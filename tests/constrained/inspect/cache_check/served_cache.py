"""A server with a prefix cache and a chat template, but no model: it answers in the words of other
servers. A character is a token."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from constrained.prompt.template.chat_template import ChatTemplate
from grammars.wire.format import count_common
from tests.unstable_templates import KEPT

Json = dict[str, Any]
KEY = "s3cret"
PATH = "/v1/chat/completions"
_OVERHEAD, _PER_TOKEN = 0.01, 1e-3  # seconds


class Style(Enum):
    """How replies tell what was cached."""

    OPENAI = auto()
    LLAMA_SERVER = auto()
    OLD_LLAMA_SERVER = auto()
    OLD_OLLAMA = auto()
    OLLAMA = auto()
    ZERO = auto()
    """It says 0, whatever it does."""
    SILENT = auto()
    """It says nothing."""


@dataclass
class ServedCache:
    """What is served.

    Args:
        style: of the replies.
        source: of the template.
        has_cache: else all prompts are computed.
        tells_template: there is `/props`.
        refuses_tools: requests with tools are status 400.
        models: their names.
        block: tokens that are reused as a whole or not at all.
        forgets: prompts with this text are not kept; "" for none.
        clock: the time, which goes on with each token that is computed.
    """

    style: Style = Style.OPENAI
    source: str = KEPT
    has_cache: bool = True
    tells_template: bool = True
    refuses_tools: bool = False
    models: tuple[str, ...] = ("some-model",)
    block: int = 1
    forgets: str = ""
    clock: float = 0.0
    asked: int = 0
    prompts: list[str] = field(default_factory=list[str])

    def answer(self, body: Json) -> Json:
        """The reply to a Chat Completion."""
        prompt = ChatTemplate(self.source).render(body["messages"], body.get("tools"))
        known = [count_common(prompt, earlier) for earlier in self.prompts]
        cached = max(known, default=0) if self.has_cache else 0
        cached = min(cached, len(prompt) - 1) // self.block * self.block
        self.asked += 1
        if not self.forgets or self.forgets not in prompt:
            self.prompts.append(prompt)
        total = len(prompt)
        computed = len(prompt) - cached
        self.clock += _OVERHEAD + _PER_TOKEN * computed
        usage: Json = {"prompt_tokens": total, "completion_tokens": 1}
        message = {"role": "assistant", "content": "Hi"}
        reply: Json = {"choices": [{"message": message}], "usage": usage}
        match self.style:
            case Style.OPENAI:
                usage["prompt_tokens_details"] = {"cached_tokens": cached}
            case Style.LLAMA_SERVER:
                reply["timings"] = {"cache_n": cached, "prompt_n": computed}
            case Style.OLD_LLAMA_SERVER:
                reply["timings"] = {"prompt_n": computed}
            case Style.OLD_OLLAMA:
                usage["prompt_tokens"] = computed
            case Style.OLLAMA:
                pass
            case Style.ZERO:
                usage["prompt_tokens_details"] = {"cached_tokens": 0}
            case Style.SILENT:
                del reply["usage"]
        return reply


@contextmanager
def serving(cache: ServedCache) -> Iterator[str]:
    """Serves it; gives the URL."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/v1/models":
                self._send(200, {"data": [{"id": name} for name in cache.models]})
            elif path == "/props" and cache.tells_template:
                self._send(200, {"chat_template": cache.source, "bos_token": "<s>"})
            else:
                self._send(404, {"error": "nothing is here"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers.get("Authorization", f"Bearer {KEY}") != f"Bearer {KEY}":
                self._send(401, {"error": "wrong key"})
            elif body["model"] == "elsewhere":
                self.send_response(307)
                self.send_header("Location", f"http://{self.headers['Host']}{PATH}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif body.get("tools") and cache.refuses_tools:
                self._send(400, {"error": "this model takes no tools"})
            else:
                self._send(200, cache.answer(body))

        def _send(self, status: int, body: Json) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
