"""Grammars of turns, compiled to matchers; finds the tool or answer that a failure is due to."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from constrained.engine.vocabulary.vocabulary import Tokenizer, Vocabulary, build_tokenizer
from constrained.errors import GrammarError, RequestError
from constrained.mask.matcher import Matcher
from constrained.mask.trial import TrialError, try_grammar
from constrained.prompt.cache_scope import COMMON
from constrained.prompt.tools.offer import Offer, Offered, Refusal
from grammars.errors import SchemaError, ToolError
from grammars.limits.byte_cache import MIB, ByteCache, CacheSize, measure_bytes
from grammars.schema.extent import find_long_part
from grammars.turn import (
    Answer,
    ChoiceAnswer,
    GrammarAnswer,
    JsonAnswer,
    Policy,
    RegexAnswer,
    State,
    Tool,
)
from grammars.turn_grammar.answer import read_regex
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.ir.grammar import Grammar
from grammars.turn_grammar.ir.printer import print_expression
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format

MATCHERS = 64 * MIB  # those of compiled grammars; one of three tools takes 0.3 MB at first
MAX_OWN_GRAMMARS = 4
"""Compilers of formats with tokens of their own: each has a tokenizer."""
LARGEST = 0.5  # the maximum share of one grammar; beyond that, it is compiled again


COMPLETERS = 32 * MIB
COMPLETER_BYTES, CHARACTER_BYTES = 20_000, 60  # of a completer and its grammar; of its text


@dataclass(frozen=True)
class GrammarSource:
    """All that the grammar of a turn depends on, except for the vocabulary. Only requests of this
    cache `scope` share it."""

    format: Format
    tools: tuple[Tool, ...]
    policy: Policy
    state: State
    text_ends: tuple[str, ...] = ()
    scope: str = COMMON

    def build(self, markers: Mapping[str, int]) -> Grammar:
        return build_turn(
            self.format,
            self.tools,
            policy=self.policy,
            state=self.state,
            markers=markers,
            text_ends=self.text_ends,
        )


@dataclass(frozen=True)
class _KeptGrammar:
    """A completer, and the tools that it was built for: the cache key has the `id` of each schema,
    so the schemas must stay alive. Their size counts, since the cache may be their only owner."""

    tools: Sequence[Tool]
    tools_bytes: int
    completer: Completer

    def measure(self) -> int:
        text = CHARACTER_BYTES * len(self.completer.grammar.lark)
        return self.tools_bytes + COMPLETER_BYTES + text + self.completer.measure()


class RefusedToolError(Exception):
    def __init__(self, refusal: Refusal):
        self.refusal = refusal
        super().__init__(str(refusal))


class GrammarCompiler:
    """Compiles grammars for one vocabulary, and keeps the last matchers. `texts`: the fixed texts
    of all formats; a grammar whose shortest turn is longer than `context_length` tokens is
    refused."""

    def __init__(
        self, vocabulary: Vocabulary, texts: Sequence[str], context_length: int | None = None
    ):
        self.vocabulary = vocabulary
        self._texts = texts
        self._context_length = context_length
        self._matchers: ByteCache[Matcher] = ByteCache(MATCHERS, Matcher.measure, largest=LARGEST)
        self._completers: ByteCache[_KeptGrammar] = ByteCache(COMPLETERS, _KeptGrammar.measure)

    @cached_property
    def markers(self) -> dict[str, int]:
        return self.vocabulary.find_markers(self._texts)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return build_tokenizer(self.vocabulary, self.markers)

    @cached_property
    def max_characters(self) -> int | None:
        """The most characters that fit into the context; None: any number."""
        if self._context_length is None:
            return None
        return self._context_length * self.vocabulary.longest

    def measure_caches(self) -> dict[str, CacheSize]:
        return {"matchers": self._matchers.size, "completers": self._completers.size}

    def forget(self) -> None:
        """Drops all matchers: one that has failed may have damaged data that its forks share."""
        self._matchers.clear()

    def find_completer(self, source: GrammarSource) -> Completer:
        """Returns the completer of such turns; the last ones are kept, since each turn of a
        conversation has the same tools. Those of typed answers are not."""
        if source.policy.answer is not None:
            return Completer(source.build(self.markers))
        schemas = tuple((tool.name, id(tool.schema)) for tool in source.tools)
        source_key = source.format.name, source.policy, source.state, source.text_ends
        key = (source.scope, schemas, source_key)
        kept = self._completers.find(key, None)
        if kept is not None:
            return kept.completer
        completer = Completer(source.build(self.markers))
        kept = _KeptGrammar(source.tools, measure_bytes(source.tools), completer)
        self._completers.keep(key, kept)
        return completer

    def compile(self, source: GrammarSource, offer: Offer) -> tuple[Completer, Matcher]:
        """Builds and compiles the grammar of a turn; the matcher is for one turn only. Raises
        RefusedToolError: a tool cannot be enforced; RequestError: the context has no room for the
        shortest turn; GrammarError, SchemaError, ToolError: something else cannot be enforced."""
        _ = self.tokenizer  # if it cannot be built, no tool is to blame
        try:
            completer = self.find_completer(source)
            self._check_length(completer, source)
            matcher = self._find_matcher(completer.grammar.lark, source.policy.answer, source.scope)
            return completer, matcher.fork()  # the matcher in the cache stays at the start
        except (GrammarError, SchemaError, ToolError) as error:
            self._explain(error, source, offer)
            raise

    def compile_built(
        self, grammar: Grammar, answer: Answer | None, scope: str
    ) -> tuple[Completer, Matcher]:
        """As `compile`, for a grammar that is built, perhaps in another process."""
        return Completer(grammar), self._find_matcher(grammar.lark, answer, scope).fork()

    def _find_matcher(self, lark: str, answer: Answer | None, scope: str) -> Matcher:
        key = lark, _find_pointer(answer), scope
        matcher = self._matchers.find(key, None)
        if matcher is None:
            matcher = self._compile_text(lark, answer)
            self._matchers.keep(key, matcher)
        return matcher

    def _compile_text(self, lark: str, answer: Answer | None) -> Matcher:
        pointer = _find_pointer(answer)
        match answer:
            case GrammarAnswer(text):
                self._try(text, pointer)
            case RegexAnswer(regex):
                terminal = print_expression(read_regex(regex))
                self._try(f"start: ANSWER\nANSWER: {terminal}", pointer)
            case _:
                return Matcher.compile(self.tokenizer, lark, where=pointer)
        return Matcher.compile(self.tokenizer, lark, is_own=False, where=pointer)

    def _try(self, lark: str, pointer: str) -> None:
        try:
            try_grammar(lark, self.vocabulary, self.markers.values())
        except TrialError as error:
            message = f"the {pointer[1:]} of the answer: {error.message}"
            raise TrialError(message, where=pointer, hint=error.hint) from error

    def _explain(
        self, error: GrammarError | SchemaError | ToolError, source: GrammarSource, offer: Offer
    ) -> None:
        """Raises an error that names the answer or tool that causes the failure: the one that also
        fails alone, or else all tools together."""
        if isinstance(error, TrialError):  # it names the answer already
            return
        is_refused = isinstance(error, GrammarError)  # by llguidance
        if is_refused:
            self._check_answer(source)
        for offered in offer.kept:
            self._check_tool(source, offered)
        if not is_refused:
            return
        if offer.kept:
            raise GrammarError(error.message, where="/tools", hint=error.hint) from error
        answer = source.policy.answer
        if error.where is None and answer is not None:
            pointer = _find_pointer(answer)
            raise GrammarError(error.message, where=pointer, hint=error.hint) from error

    def _check_length(self, completer: Completer, source: GrammarSource) -> None:
        """Refuses a grammar whose shortest turn does not fit into the context: `read_offer` has
        refused single tools, so it is the answer, or several calls."""
        least, room = completer.least, self.max_characters
        if least is None or room is None or least <= room:
            return
        answer = source.policy.answer
        where = "/choice" if isinstance(answer, ChoiceAnswer) else _find_pointer(answer)
        hint = "Lower the minima, or raise the context length (-c)"
        if isinstance(answer, JsonAnswer) and answer.schema.least > room:
            part = find_long_part(answer.schema.node, answer.schema.definitions, room)
            hint = f"Lower the minimum at {part or 'the root'} of its schema"
        message = f"the shortest turn has {least:,} characters, the context room for {room:,}"
        raise RequestError(message, where=where, hint=hint)

    def _check_answer(self, source: GrammarSource) -> None:
        answer = source.policy.answer
        if answer is None:
            return
        alone = Policy(answer=answer, key_order=source.policy.key_order)
        lark = replace(source, tools=(), policy=alone).build(self.markers).lark
        try:
            self._compile_text(lark, answer)
        except GrammarError as error:
            where = _find_pointer(answer)
            hint = "Ask for something simpler" if error.hint else None
            raise GrammarError(f"the answer: {error.message}", where=where, hint=hint) from error

    def _check_tool(self, source: GrammarSource, offered: Offered) -> None:
        tool, policy = offered.tool, Policy(key_order=source.policy.key_order)
        alone = replace(source, tools=(tool,), policy=policy)
        try:
            self._compile_text(alone.build(self.markers).lark, None)
        except GrammarError as error:
            message = f"the schema of tool {tool.name!r} cannot be enforced: {error.message}"
            refused = SchemaError(message, where=offered.entry.place, hint="Simplify it")
            raise RefusedToolError(Refusal(tool.name, refused)) from error
        except (SchemaError, ToolError) as error:
            raise RefusedToolError(Refusal(tool.name, error)) from error


class FormatGrammars:
    """The compilers of grammars for all formats of a model. A format that has tokens of its own,
    where the others have text, gets a compiler of its own."""

    def __init__(
        self, vocabulary: Vocabulary, texts: Sequence[str], context_length: int | None = None
    ):
        self._vocabulary = vocabulary
        self._texts = tuple(texts)
        self._context_length = context_length
        self.usual = GrammarCompiler(vocabulary, texts, context_length)
        self._own: OrderedDict[tuple[str, ...], GrammarCompiler] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, format: Format) -> GrammarCompiler:
        if set(self._texts).issuperset(format.texts):
            return self.usual
        with self._lock:
            found = self._own.get(format.texts)
            if found is None:
                texts = (*self._texts, *format.texts)
                found = GrammarCompiler(self._vocabulary, texts, self._context_length)
                if found.markers == self.usual.markers:
                    found = self.usual
                self._own[format.texts] = found
                if len(self._own) > MAX_OWN_GRAMMARS:
                    self._own.popitem(last=False)
            return found

    def measure_caches(self) -> dict[str, CacheSize]:
        sizes: dict[str, CacheSize] = {}
        for grammars in self._list_all():
            for name, size in grammars.measure_caches().items():
                sizes[name] = sizes.get(name, CacheSize()) + size
        return sizes

    def forget(self) -> None:
        for grammars in self._list_all():
            grammars.forget()

    def _list_all(self) -> list[GrammarCompiler]:
        with self._lock:
            return list(dict.fromkeys([self.usual, *self._own.values()]))


def _find_pointer(answer: Answer | None) -> str:
    """Returns the JSON pointer to the part of the request that the grammar comes from."""
    match answer:
        case GrammarAnswer():
            return "/grammar"
        case RegexAnswer():
            return "/regex"
        case None:
            return "/tools"
        case _:
            return "/response_format"
