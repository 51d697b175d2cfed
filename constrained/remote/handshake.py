"""The handshake: checks that an engine has the local vocabulary and enforces grammars.

Both are checked before the first request: with another vocabulary every token would mean another
text, and an engine may silently ignore a grammar.
"""

import random
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from constrained.engine.sampling import Sampling
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RemoteError
from constrained.remote.sampler import (
    EndReason,
    EngineVersion,
    RemoteTokenizer,
    SampledToken,
    SampleEnd,
    SampleRequest,
    SampleStart,
    TokenSampler,
)

BLOCK = 2_000  # tokens that are detokenized in one request
SAMPLE = 64  # tokens that are detokenized one by one, if their texts depend on their neighbours
TOGETHER = 64  # names of special tokens in one request
PROBE = "constrained: 7f3a-\u00e9"
"""A text that no model writes without a grammar."""
PROMPT = "Say hello."
LIKELIEST = 20  # tokens whose probabilities are compared; vLLM's default maximum
TOLERANCE = 0.5
"""The tolerance of the logarithm of a probability. For the same weights it varies by a tenth of
this in other batches or on other devices; other weights differ by more in nearly all tokens."""
TEXTS = (
    "Hello, world! It's 12:30; the café costs 3.50 €.",
    "def f(x):\n    return {'a': [1, 2.5e-3, None]}\n",
    "Привет, мир. 你好,世界。 こんにちは 안녕 مرحبا שלום",
    '{"name": "get_weather", "arguments": {"city": "Zürich"}}',
)
VOCABULARY_HINT = "Name the tokenizer of the very model that it runs (tokenizer, --tokenizer)"


@dataclass(frozen=True)
class Weights:
    """Evidence of which weights an engine has.

    Args:
        version: the engine's own names for them.
        likely: the most likely first tokens after a prompt, and the logarithms of their
            probabilities; empty: the engine does not report them.
    """

    version: EngineVersion
    likely: Mapping[int, float] = field(default_factory=dict[int, float])

    def may_be(self, other: "Weights") -> bool:
        """Returns False if the weights certainly differ."""
        if not self.likely or not other.likely:
            return True
        both = self.likely.keys() & other.likely.keys()
        if 2 * len(both) < min(len(self.likely), len(other.likely)):
            return False
        return all(abs(self.likely[token] - other.likely[token]) <= TOLERANCE for token in both)


@dataclass(frozen=True)
class Handshake:
    """The checks of an engine before its first use.

    Args:
        grammar_hint: what the engine needs to enforce grammars, for errors.
        spells_exactly: its tokenizer joins tokens byte by byte: then all are compared. A tokenizer
            of Hugging Face may change white space between tokens: then a sample is compared.
        vocabulary_size: the number of tokens that it reports; None: it reports none.
    """

    sampler: TokenSampler
    tokenizer: RemoteTokenizer
    grammar_hint: str
    spells_exactly: bool = False
    vocabulary_size: int | None = None

    async def check(self) -> None:
        """Compares the vocabularies, and tries a grammar.

        Raises:
            RemoteError: the vocabulary differs, grammars are not enforced, or the engine cannot be
                reached.
        """
        vocabulary = self.sampler.vocabulary
        size = len(vocabulary.tokens)
        if self.vocabulary_size not in (None, size):
            raise self._differ(f"it has {self.vocabulary_size} tokens, the tokenizer {size}")
        await self._compare_markers(vocabulary)
        await self._compare_texts(vocabulary)
        if self.spells_exactly:
            for block in _cut_blocks(size):
                await self._compare_tokens(vocabulary, block)
        else:
            for token in _pick_words(vocabulary):
                await self._compare_tokens(vocabulary, [token])
        await self._try_grammar(vocabulary)

    async def read_weights(self) -> Weights:
        """Reads the evidence of its weights: samples one token without a grammar."""
        free = Sampling(temperature=1, top_k=0, top_p=1, min_p=0)
        request = self._write_request(None, 1, free)
        likely: Mapping[int, float] = {}
        version = EngineVersion()
        try:
            async for sampled in self.sampler.open(replace(request, logprobs=LIKELIEST)):
                match sampled:
                    case SampledToken():
                        likely = sampled.top
                    case SampleEnd():
                        version = sampled.version
                    case SampleStart():
                        pass
        except RemoteError as error:
            if error.status != 400:
                raise
            # The operator may have limited how many probabilities it reports, even to none.
        return Weights(version, likely)

    def _write_request(
        self, grammar: str | None, max_tokens: int, sampling: Sampling
    ) -> SampleRequest:
        vocabulary = self.sampler.vocabulary
        prompt = vocabulary.encode(PROMPT)
        if vocabulary.bos is not None:
            prompt = [vocabulary.bos, *prompt]
        return SampleRequest(
            name=f"handshake-{secrets.token_hex(8)}",
            prompt=prompt,
            grammar=grammar,
            max_tokens=max_tokens,
            sampling=sampling,
            cache_salt="",
        )

    async def _compare_markers(self, vocabulary: Vocabulary) -> None:
        """Compares the names of special tokens, many at once; if there is a difference, one by
        one."""
        named: list[int] = []
        for token, name in vocabulary.named.items():
            # If several tokens have one name, one of them is found; half a character has no name.
            if vocabulary.marker(name) == token and "\ufffd" not in name:
                named.append(token)
        for start in range(0, len(named), TOGETHER):
            together = named[start : start + TOGETHER]
            names = [vocabulary.named[token] for token in together]
            if await self.tokenizer.tokenize("".join(names)) == together:
                continue
            for token, name in zip(together, names, strict=True):
                found = await self.tokenizer.tokenize(name)
                if found != [token]:
                    raise self._differ(f"{name!r} is token {token}, there it is {found[:8]}")

    async def _compare_texts(self, vocabulary: Vocabulary) -> None:
        for text in TEXTS:
            tokens = await self.tokenizer.tokenize(text)
            known = [token for token in tokens if 0 <= token < len(vocabulary.tokens)]
            spelled = vocabulary.text(known)
            # SentencePiece adds a space before a text.
            if len(known) < len(tokens) or spelled.removeprefix(b" ") != text.encode():
                shown = spelled.decode("utf-8", "replace")
                raise self._differ(f"the tokens of {text[:20]!r} there spell {shown[:20]!r} here")
            await self._compare_tokens(vocabulary, tokens)

    async def _compare_tokens(self, vocabulary: Vocabulary, tokens: list[int]) -> None:
        there = await self.tokenizer.detokenize(tokens)
        here = vocabulary.text(tokens).decode("utf-8", "replace")
        if self.spells_exactly:
            is_same = _merge_marks(there) == _merge_marks(here)
        else:
            is_same = there.strip() == here.strip()
        if not is_same:
            what = f"token {tokens[0]}"
            if len(tokens) > 1:
                what = f"tokens {tokens[0]} to {tokens[-1]}"
            raise self._differ(f"{what} are {there[:40]!r} there, {here[:40]!r} here")

    def _differ(self, problem: str) -> RemoteError:
        message = f"{self.sampler.name}: it has another vocabulary: {problem}"
        return RemoteError(message, hint=VOCABULARY_HINT)

    async def _try_grammar(self, vocabulary: Vocabulary) -> None:
        """Requests, with a grammar, a text that no model writes by itself."""
        grammar = f'%llguidance {{}}\nstart: "{PROBE}"\n'
        max_tokens = len(PROBE.encode()) + 8
        request = self._write_request(grammar, max_tokens, Sampling(temperature=0))
        written: list[int] = []
        end: SampleEnd | None = None
        async for sampled in self.sampler.open(request):
            match sampled:
                case SampledToken(token):
                    written.append(token)
                case SampleEnd():
                    end = sampled
                case SampleStart():
                    pass
        text = vocabulary.text(token for token in written if token not in vocabulary.end)
        if text.decode("utf-8", "replace") != PROBE:
            message = f"{self.sampler.name}: it does not enforce grammars: asked for {PROBE!r}, "
            shown = text.decode("utf-8", "replace")[:60]
            raise RemoteError(f"{message}it wrote {shown!r}", hint=self.grammar_hint)
        if end is None or end.reason is not EndReason.STOP:
            message = f"{self.sampler.name}: it continues where the grammar ends"
            raise RemoteError(message, hint=self.grammar_hint)


def _cut_blocks(size: int) -> Iterator[list[int]]:
    for start in range(0, size, BLOCK):
        yield list(range(start, min(size, start + BLOCK)))


def _pick_words(vocabulary: Vocabulary) -> Sequence[int]:
    """Picks ordinary tokens of whole characters, the same ones each time."""
    whole: list[int] = []
    for token, data in enumerate(vocabulary.tokens):
        is_whole = "\ufffd" not in data.decode("utf-8", "replace")
        if data.strip() and is_whole and token not in vocabulary.structural:
            whole.append(token)
    return random.Random(0).sample(whole, min(SAMPLE, len(whole)))


def _merge_marks(text: str) -> str:
    """Replaces each run of replacement marks by one, since engines differ in their number."""
    return re.sub("\ufffd+", "\ufffd", text)
