"""The compiled turn: prompt, grammar, parser, and the checks of the generated values."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil

from constrained.decode.completion_reserve import CompletionReserve
from constrained.decode.endless.values import EndlessValues
from constrained.decode.filters.checked_values import CheckedSchemas
from constrained.decode.reasoning_budget import ReasoningBudget
from constrained.decode.request import DecodeInput, EnvelopeRules
from constrained.decode.written_prefill import WrittenPrefill
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RequestError
from constrained.mask.matcher import Matcher
from constrained.prompt.cache_scope import CacheScope
from constrained.prompt.job import MAX_REPEATED, NO_LIMITS, CallLimits, Envelopes
from constrained.prompt.prompts import TEXT, ComposedPrompt
from constrained.prompt.tools.offer import Refusal
from grammars.parse.parser import Parser
from grammars.parse.render import render_opening
from grammars.schema.extent import bound_length, bound_rest
from grammars.schema.lowering.checked import CheckedArguments, find_checked
from grammars.schema.nodes import Schema
from grammars.turn import (
    THINKING_TAGS,
    Choice,
    ChoiceAnswer,
    JsonAnswer,
    Policy,
    RegexAnswer,
    Start,
    State,
    Think,
    Tool,
)
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.ir.grammar import Grammar
from grammars.turn_grammar.turn import build_turn
from grammars.wire.format import Format
from grammars.wire.formats import GENERIC

MARGIN = 1.5  # tokens of arguments may be shorter than those of schemas
UNBOUNDED = 10**9  # tokens
SAMPLE = 4_000  # characters of the schemas, enough to estimate how long tokens are


@dataclass(frozen=True, kw_only=True)
class CompiledTurn:
    """A job, compiled for one model. It can be generated any number of times.

    Args:
        prompt: the prompt of the conversation.
        prefill: the assistant prefill, which comes after the prompt.
        format: the wire format of the turn.
        tools: the tools that may be called.
        policy: which calls, reasoning and answer are allowed.
        state: where the grammar starts: at the end of the prompt, or after the reasoning block if
            the prefill has content.
        completer: finds the shortest ending of a turn, and holds the grammar; None: the turn is
            free text.
        matcher: of the grammar, after the tokens of the prefill; None: the turn is free text.
        budget: limits the reasoning; None: no limit.
        vocabulary: of the model.
        markers: the token ids of the format's markers that are one token, by their text.
        thinking_tags: as in `Job`.
        call_limits: how many calls the turn may have, and how often the same one.
        max_repetition: as in `Job`.
        call_ids: the ids of the calls in the conversation so far.
        text_ends: texts of the template that end the turn, if no token does.
        envelopes: as in `Job`.
        quoted_tools: the tools that the data of the conversation calls.
        compile_grammar: compiles a grammar for this model.
        refused: the tools that were left out.
        scope: the cache scope of the prompt; None: nothing is cached.
    """

    prompt: ComposedPrompt
    format: Format
    tools: tuple[Tool, ...] = ()
    policy: Policy
    state: State
    completer: Completer | None = None
    matcher: Matcher | None = None
    budget: ReasoningBudget | None = None
    vocabulary: Vocabulary
    markers: Mapping[str, int]
    scope: CacheScope
    thinking_tags: bool = True
    call_limits: CallLimits = NO_LIMITS
    max_repetition: int | None = MAX_REPEATED
    call_ids: frozenset[str] = frozenset()
    text_ends: tuple[str, ...] = ()
    envelopes: Envelopes = Envelopes.OFF
    quoted_tools: frozenset[str] = frozenset()
    compile_grammar: Callable[[Grammar], tuple[Completer, Matcher]] | None = None
    refused: tuple[Refusal, ...] = ()
    prefill: WrittenPrefill = field(default_factory=WrittenPrefill)

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """The token ids that the model reads before it generates: the prompt and the prefill."""
        return self.prompt.tokens + self.prefill.tokens

    def make_input(self) -> DecodeInput:
        """Returns the input for decoding this turn once, with a new matcher."""
        endless = None if self.max_repetition is None else self.make_endless_values
        return DecodeInput(
            prompt=self.tokens,
            breakpoints=self.prompt.breakpoints,
            prefill=self.prefill,
            matcher=self.matcher.fork() if self.matcher else None,
            grammar=None if self.completer is None else self.completer.grammar,
            make_parser=self.make_parser,
            budget=self.budget,
            build_closing=self.build_closing,
            make_reserve=self.make_reserve,
            make_endless_values=endless,
            max_content_repetition=self._max_content_repetition,
            checked_schemas=self.checked_schemas,
            answer=self._rewritten_answer,
            call_limits=self.call_limits,
            envelopes=self._make_envelope_rules(),
            openings=self.openings,
            scope=self.scope,
        )

    @property
    def _max_content_repetition(self) -> int | None:
        """None where content may not end anywhere: a call or an answer must come. A raw text has no
        turn that could end."""
        if self.policy.requires_output or self.policy.answer is not None or self.format == TEXT:
            return None
        return self.max_repetition

    @property
    def _rewritten_answer(self) -> Schema | None:
        """The schema of a JSON answer that is written as its schema means it. The text after a raw
        prompt stays as the model wrote it: clients join it to the prompt, and count in it."""
        answer = self.policy.answer
        if isinstance(answer, JsonAnswer) and self.format != TEXT:
            return answer.schema
        return None

    @property
    def openings(self) -> tuple[str, ...]:
        """The texts that a call can begin with; () if the turn has no calls."""
        if not self.policy.select(self.tools):
            return ()
        return tuple(self.format.openings) or self.format.bare_start[:1]

    @cached_property
    def foreign_tools(self) -> tuple[str, ...]:
        """The tools whose calls are delivered in other envelopes, too: where calls are optional,
        and the content is free. Data that calls a tool may be copied, so such a call is text."""
        policy = self.policy
        is_held = self.matcher is not None and self.compile_grammar is not None
        if self.envelopes is Envelopes.OFF or not is_held or policy.requires_output:
            return ()
        names = [tool.name for tool in policy.select(self.tools)]
        return tuple(name for name in names if name not in self.quoted_tools)

    @property
    def hardly_calls(self) -> bool:
        """Whether calls are optional and small models hardly make them: the prompt explains them in
        the generic format, and the conversation has none yet."""
        is_explained = self.format.name == GENERIC.name and not self.call_ids
        is_optional = self.policy.choice is Choice.AUTO and bool(self.policy.select(self.tools))
        return is_explained and is_optional

    def _make_envelope_rules(self) -> EnvelopeRules | None:
        if not self.foreign_tools:
            return None
        return EnvelopeRules(
            keeps=self.envelopes is Envelopes.KEPT,
            list_openings=self._list_openings,
            encode=lambda text: self.vocabulary.encode_marked(text, self.markers),
            continue_in=self._continue_in,
        )

    def _list_openings(self, name: str, has_content: bool) -> list[str]:
        """Lists the ways to open a call, without the white space at its end, which may be part of
        the next token."""
        opening = render_opening(self.format, name, self.state).rstrip()
        if not has_content:
            starts = [content.opener + content.closer for content in self.format.contents]
            return [opening, *(start + opening for start in starts if start)]
        if not self.format.openings:
            return []  # a call without a marker begins a turn; after content it would be text
        closers = [content.closer for content in self.format.contents if content.calls]
        befores = [closer + self.format.before for closer in closers]
        return [before + opening for before in dict.fromkeys([*befores, *closers])]

    def _continue_in(self, format: Format, lead: str) -> DecodeInput:
        """Makes the input for the rest of a turn that goes on in another format.

        Args:
            format: of the rest.
            lead: what the turn has written of the first call.

        Raises:
            ToolError, SchemaError, PolicyError: the format cannot write the call.
        """
        assert self.compile_grammar is not None
        markers = self.vocabulary.find_markers(format.texts)
        state = State(lead=lead, calls=self.state.calls)
        # A call that the data contains could be copied behind the first one.
        parallel = self.policy.parallel and not self.quoted_tools
        policy = replace(self.policy, parallel=parallel, think=Think.OPTIONAL)
        grammar = build_turn(
            format,
            self.tools,
            policy,
            state=state,
            markers=markers,
            text_ends=self.text_ends,
        )
        completer, matcher = self.compile_grammar(grammar)
        rest = replace(
            self,
            format=format,
            state=state,
            completer=completer,
            matcher=matcher,
            budget=None,
            markers=markers,
        )
        return rest.make_input()

    def make_parser(self) -> Parser:
        """Makes a parser for the text of this turn."""
        calls = bool(self.policy.select(self.tools))
        answer = self.policy.answer is not None and self.policy.choice is not Choice.REQUIRED
        reads_tags = self.thinking_tags and not self.policy.answer
        return Parser(
            self.format,
            self.tools,
            self.state,
            calls=calls,
            answer=answer,
            stream=self.matcher is not None,
            thoughts=THINKING_TAGS if reads_tags else None,
            ends=self.text_ends,
            foreign=self.foreign_tools,
        )

    def check_endless(self) -> None:
        """Refuses a turn that cannot continue until its tokens run out (`ignore_eos`).

        Raises:
            RequestError: the turn has tools, or a text of the template ends it.
        """
        if self.policy.select(self.tools):
            message = "with tools, the turn would make calls without end"
            hint = "Leave ignore_eos or the tools out, or use tool_choice: none"
            raise RequestError(message, where="/ignore_eos", hint=hint)
        if self.text_ends:
            message = f"turns of this chat template end with a text, {self.text_ends[0]!r}"
            raise RequestError(message, where="/ignore_eos", hint="Leave it out")

    @cached_property
    def checked_schemas(self) -> CheckedSchemas:
        """The schemas of values that are checked when they are complete.

        Tools that are not strict have none: their calls are delivered even if they fail a check.
        """
        checked: dict[str, tuple[Schema, CheckedArguments]] = {}
        for tool in self.tools:
            if tool.strict:
                checked[tool.name] = tool.schema, find_checked(tool.schema)
        answer = self.policy.answer
        if isinstance(answer, JsonAnswer) and answer.schema.report.checked:
            return CheckedSchemas(checked, answer)
        return CheckedSchemas(checked)

    def find_checked_schemas(self) -> None:
        """Computes `checked_schemas`, which the turn keeps: while it is compiled, so that the work
        counts as steps of that, and not in the thread that decodes."""
        _ = self.checked_schemas

    @property
    def grammar(self) -> str | None:
        """The grammar as text for llguidance; None: the turn is free text."""
        return None if self.completer is None else self.completer.grammar.lark

    @cached_property
    def _stride(self) -> int:
        """Returns how many tokens one more token can add to the shortest ending, at most: those of
        the longest call or answer."""
        if isinstance(self.policy.answer, RegexAnswer):
            return UNBOUNDED  # one character can make any number of others necessary
        return self._count_tokens(map(bound_length, self._schemas))

    @cached_property
    def _longest_rest(self) -> int | None:
        """How many tokens any text can add to the shortest ending, at most; None: no limit."""
        rests = [bound_rest(schema) for schema in self._schemas]
        bounded = [rest for rest in rests if rest is not None]
        if len(bounded) < len(rests) or isinstance(self.policy.answer, RegexAnswer):
            return None
        return self._count_tokens(bounded)

    @property
    def _schemas(self) -> list[Schema]:
        schemas = [tool.schema for tool in self.tools]
        if isinstance(self.policy.answer, JsonAnswer):
            schemas.append(self.policy.answer.schema)
        return schemas

    def _count_tokens(self, sizes: Iterable[int]) -> int:
        """Estimates the tokens of the longest call or answer.

        A token is assumed to have the average bytes of the tokens in the schemas.

        Args:
            sizes: in bytes, of the arguments of each tool and of the answer.
        """
        sources = json.dumps([schema.source for schema in self._schemas], ensure_ascii=False)
        sample = sources[:SAMPLE]
        bytes_per_token = len(sample.encode()) / len(self.vocabulary.encode(sample))
        longest = max(sizes, default=0)
        longest += _measure_longest(tool.name for tool in self.tools)
        if isinstance(self.policy.answer, ChoiceAnswer):
            longest = max(longest, _measure_longest(self.policy.answer.options))
        return ceil(MARGIN * longest / max(1, bytes_per_token))

    def make_reserve(self, limit: int) -> CompletionReserve:
        """Makes the completion reserve of a turn.

        Args:
            limit: the maximum number of tokens of the turn.
        """
        assert self.completer is not None, "a free turn ends anywhere"
        return CompletionReserve(
            self.completer.fork().complete,
            self.vocabulary,
            markers=self.markers,
            stride=self._stride,
            longest_rest=self._longest_rest,
            limit=limit,
        )

    def build_closing(self) -> Grammar:
        """Builds the grammar of the rest of a turn that has to end its reasoning now.

        A remote engine cannot count reasoning tokens. They are counted here, and the engine then
        continues with this grammar.
        """
        return build_turn(
            self.format,
            self.tools,
            policy=replace(self.policy, think=Think.FORBIDDEN),
            state=State(Start.OPEN, calls=self.state.calls),
            markers=self.markers,
            text_ends=self.text_ends,
        )

    def make_endless_values(self) -> EndlessValues:
        """Makes the part of the turn that ends values which repeat themselves."""
        assert self.completer is not None, "a free turn has no values"
        assert self.max_repetition is not None
        return EndlessValues(
            self.completer.fork,
            self.vocabulary,
            max_tokens=self.max_repetition,
            has_answer=self.policy.answer is not None,
        )


def _measure_longest(texts: Iterable[str]) -> int:
    """Returns the length of the longest text in bytes; 0 if there is none."""
    return max(map(len, map(str.encode, texts)), default=0)
