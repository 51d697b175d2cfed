"""What the samplers of all engines have in common: a client, the local vocabulary, limits."""

import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from constrained.remote.emitters import LARK
from constrained.remote.engines.answers import read_ids, refuse
from constrained.remote.engines.http_client import HttpClient, Json
from constrained.remote.sampler import SampleRequest, SamplerLimits
from constrained.vocabulary.vocabulary import Vocabulary

WRITTEN = re.compile(r"<\[(\d+)\]>")
"""A token that a grammar writes. In a text it may stand, too, which bans a token less."""


class HttpSampler:
    """A `TokenSampler` at an HTTP server, but for `open`.

    Args:
        client: speaks to it.
        vocabulary: that it has, too.
        limits: what it can do.
    """

    emitter = LARK

    def __init__(self, client: HttpClient, vocabulary: Vocabulary, limits: SamplerLimits):
        self._client = client
        self.name = str(client.address)
        self.vocabulary = vocabulary
        self.limits = limits

    def check(self, request: SampleRequest) -> None:
        """Raises RequestError for an option that it would have to ignore."""

    async def close(self) -> None:
        """Lets go of connections; a second time does nothing."""
        await self._client.close()


def list_unwritten(vocabulary: Vocabulary, grammar: str) -> list[int]:
    """The tokens with a name that a grammar does not write. To an engine they may be text like any
    other, so its mask would let them into strings; the mask here does not."""
    written = set(map(int, WRITTEN.findall(grammar)))
    own = vocabulary.control.union(vocabulary.end, written)
    return [token for token in vocabulary.named if token not in own]


async def refuse_more(engine: str, events: AsyncGenerator[Json, None]) -> None:
    """Raises RemoteError if a stream goes on behind its end."""
    async for event in events:
        raise refuse(engine, event, "it goes on behind the end")


class HttpTokenizer:
    """The tokenizer of an engine, at `/tokenize` and `/detokenize`.

    Args:
        client: speaks to it.
        text: what it calls a text that is cut.
        joined: what it calls the text of tokens.
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
        """The tokens of a text, names of special tokens recognised; raises RemoteError."""
        answer = await self._client.post("/tokenize", {self._text: text, **self._cutting})
        return read_ids(str(self._client.address), answer, "tokens")

    async def detokenize(self, tokens: list[int]) -> str:
        """The text of tokens, special ones by their names; raises RemoteError."""
        answer = await self._client.post("/detokenize", {"tokens": tokens, **self._joining})
        text = answer.get(self._joined)
        if not isinstance(text, str):
            raise refuse(str(self._client.address), answer, f"{self._joined} is no text")
        return text
