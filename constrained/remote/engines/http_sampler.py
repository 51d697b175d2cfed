"""The common base of samplers over HTTP: a client, the local vocabulary, limits."""

import json
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RemoteError
from constrained.remote.engines.http_client import HttpClient
from constrained.remote.sampler import SampleRequest, SamplerLimits
from grammars.schema.json_values import Json

WRITTEN = re.compile(r"<\[(\d+)\]>")
"""A token in a grammar's text. A quoted text may look like one, too; then one token less is
banned."""


MAX_SHOWN_LENGTH = 200  # characters of an event in an error


def refuse(engine: str, event: Any, problem: str) -> RemoteError:
    """Makes the error for an invalid event."""
    shown = json.dumps(event)
    if len(shown) > MAX_SHOWN_LENGTH:
        shown = shown[:MAX_SHOWN_LENGTH] + " ..."
    return RemoteError(f"{engine}: {problem}: {shown}", is_outage=True)


def read_ids(engine: str, event: dict[str, Any], name: str) -> list[int]:
    """Reads the token ids in an optional field; raises RemoteError."""
    ids = event.get(name) or []
    if not isinstance(ids, list) or any(type(token) is not int for token in ids):
        raise refuse(engine, event, f"{name} is not a list of token ids")
    return ids


def read_count(engine: str, event: dict[str, Any], name: str) -> int:
    """Reads the number in a required field; raises RemoteError."""
    count = event.get(name)
    if type(count) is not int or count < 0:
        raise refuse(engine, event, f"{name} is not a number of tokens")
    return count


def check_prompt(engine: str, event: dict[str, Any], name: str, size: int) -> None:
    """Raises RemoteError if the engine has read another number of tokens than the prompt has: some
    engines silently truncate long prompts."""
    if name in event and read_count(engine, event, name) != size:
        raise refuse(engine, event, f"it read another prompt, ours has {size} tokens")


def read_logprob(engine: str, event: dict[str, Any], value: Any) -> float:
    """Reads the logarithm of a probability; raises RemoteError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= 1e-3:
        raise refuse(engine, event, f"{value!r} is not a logarithm of a probability")
    return float(value)


class HttpSampler:
    """Base of a `TokenSampler` at an HTTP server; a subclass adds `open`."""

    def __init__(self, client: HttpClient, vocabulary: Vocabulary, limits: SamplerLimits):
        self._client = client
        self.name = str(client.address)
        self.vocabulary = vocabulary
        self.limits = limits

    def check(self, request: SampleRequest) -> None:
        """Raises RequestError for an option that the engine would ignore."""

    async def close(self) -> None:
        """Closes the connections; further calls do nothing."""
        await self._client.close()


def list_unwritten(vocabulary: Vocabulary, grammar: str) -> list[int]:
    """Lists the special tokens that a grammar does not write. For an engine they may be ordinary
    text, so its mask would allow them in strings; the local mask does not."""
    written = set(map(int, WRITTEN.findall(grammar)))
    own = vocabulary.control.union(vocabulary.end, written)
    return [token for token in vocabulary.named if token not in own]


async def refuse_more(engine: str, events: AsyncGenerator[Json, None]) -> None:
    """Raises RemoteError if a stream continues after its end."""
    async for event in events:
        raise refuse(engine, event, "it continues after the end")


class HttpTokenizer:
    """The tokenizer of an engine, at `/tokenize` and `/detokenize`.

    Args:
        text: the field for the text to tokenize.
        joined: the field for the text of tokens.
        cutting, joining: further fields of the two requests.
    """

    def __init__(
        self,
        client: HttpClient,
        *,
        text: str,
        joined: str,
        cutting: Mapping[str, Any],
        joining: Mapping[str, Any],
    ):
        self._client = client
        self._text = text
        self._joined = joined
        self._cutting = cutting
        self._joining = joining

    async def tokenize(self, text: str) -> list[int]:
        """Tokenizes a text, in which names of special tokens are these tokens; raises
        RemoteError."""
        answer = await self._client.post("/tokenize", {self._text: text, **self._cutting})
        return read_ids(str(self._client.address), answer, "tokens")

    async def detokenize(self, tokens: list[int]) -> str:
        """Returns the text of tokens, special ones by their names; raises RemoteError."""
        answer = await self._client.post("/detokenize", {"tokens": tokens, **self._joining})
        text = answer.get(self._joined)
        if not isinstance(text, str):
            raise refuse(str(self._client.address), answer, f"{self._joined} is not text")
        return text
