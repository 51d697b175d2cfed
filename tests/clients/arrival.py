"""Whether the texts of each request are in its prompt, in their order."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.turns.stable_prompts import normalise_text


def list_texts(body: Mapping[str, Any]) -> list[str]:
    """The texts of a conversation, of any dialect, in their order; without arguments of calls, and
    without reasoning."""
    texts = list[str]()
    for name in ("system", "instructions", "messages", "input"):
        texts += _find_texts(body.get(name))
    return texts


def _find_texts(value: Any) -> Iterator[str]:
    match value:
        case str() if value.strip():
            yield normalise_text(value.strip())[0]
        case list():
            for item in value:
                yield from _find_texts(item)
        case dict() if value.get("type") != "reasoning":
            for name in ("text", "content", "output"):
                yield from _find_texts(value.get(name))
        case _:
            pass


def has_all(prompt: str, texts: list[str]) -> bool:
    """Whether these texts are in the prompt, one after the other."""
    place = 0
    for text in texts:
        found = prompt.find(text, place)
        if found < 0:
            return False
        place = found + len(text)
    return True


class SentTexts:
    """The texts of each request, until a prompt has them."""

    def __init__(self):
        self._waiting: list[list[str]] = []
        self._complete = set[str]()

    def watch(self, server: ASGIApp) -> ASGIApp:
        """The same server, whose requests are read here first."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            body = b""

            async def listen() -> Message:
                nonlocal body
                message = await receive()
                body += message.get("body", b"")
                if body and not message.get("more_body"):
                    self._waiting.append(list_texts(json.loads(body)))
                    body = b""
                return message

            await server(scope, listen, send)

        return serve

    def arrive(self, prompt: str) -> bool:
        """Whether the prompt has all texts of a request that no other prompt has answered."""
        if prompt in self._complete:
            return True
        for texts in self._waiting:
            if has_all(prompt, texts):
                self._waiting.remove(texts)
                self._complete.add(prompt)
                return True
        return False
