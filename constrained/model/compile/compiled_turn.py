"""The compiled turn: prompt, grammar, parser, and the checks of the generated values."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil

from constrained.decode.completion_reserve import CompletionReserve
from constrained.decode.endless.values import EndlessValues
from constrained.decode.filters.checked_values import CheckedSchemas
from constrained.decode.filters.written_prefill import WrittenPrefill
from constrained.decode.reasoning_budget import ReasoningBudget
from constrained.decode.request import DecodeInput, EnvelopeRules
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RequestError
from constrained.mask.matcher import Matcher
from constrained.model.compile.grammar_compiler import GrammarCompiler, GrammarSource
from constrained.prompt.cache_scope import CacheScope
from constrained.prompt.job import MAX_REPEATED, NO_LIMITS, CallLimits, Envelopes
from constrained.prompt.prompts import TEXT, ComposedPrompt
from constrained.prompt.tools.offer import Offer, Refusal
from grammars.parse.parser import Parser
from grammars.parse.render import render_opening
from grammars.schema.extent import bound_length, bound_rest
from grammars.schema.lowering.checked import CheckedArguments, find_checked
from grammars.schema.nodes import Schema
from grammars.turn import (
    THINKING_TAGS,
    Answer,
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
from grammars.wire.format import Format
from grammars.wire.formats import GENERIC

MARGIN = 1.5  # tokens of arguments may be shorter than those of schemas
UNBOUNDED = 10**9  # tokens
SAMPLE = 4_000  # characters of the schemas, enough to estimate how long tokens are


@dataclass(frozen=True)
class EndingGrowth:
    """How many tokens the shortest ending can grow, at most: by one more token (those of the
    longest call or answer), and by any text (None: no limit)."""

    of_token: int
    of_text: int | None


def estimate_growth(
    tools: Sequence[Tool], answer: Answer | None, vocabulary: Vocabulary
) -> EndingGrowth:
    if isinstance(answer, RegexAnswer):
        return EndingGrowth(UNBOUNDED, None)  # one character can make any number necessary
    schemas = [tool.schema for tool in tools]
    if isinstance(answer, JsonAnswer):
        schemas.append(answer.schema)
    names = [tool.name for tool in tools]
    options = answer.options if isinstance(answer, ChoiceAnswer) else ()
    bytes_per_token = _measure_tokens(schemas, vocabulary)

    def count_tokens(sizes: Iterable[int]) -> int:
        longest = max(sizes, default=0) + _measure_longest(names)
        return ceil(MARGIN * max(longest, _measure_longest(options)) / bytes_per_token)

    rests = [bound_rest(schema) for schema in schemas]
    bounded = [rest for rest in rests if rest is not None]
    of_text = count_tokens(bounded) if len(bounded) == len(rests) else None
    return EndingGrowth(count_tokens(map(bound_length, schemas)), of_text)


def _measure_tokens(schemas: Sequence[Schema], vocabulary: Vocabulary) -> float:
    """Returns the average bytes of the tokens in the schemas, at least 1."""
    sources = json.dumps([schema.source for schema in schemas], ensure_ascii=False)
    sample = sources[:SAMPLE]
    return max(1, len(sample.encode()) / len(vocabulary.encode(sample)))


def _measure_longest(texts: Iterable[str]) -> int:
    return max((len(text.encode()) for text in texts), default=0)


@dataclass(frozen=True, kw_only=True)
class TurnPlan:
    """What a compiled turn is, without the objects that exist only in its process.

    Args:
        source: what the grammar is built from. Its state is where the grammar starts: at the end of
            the prompt, or after the reasoning block if the prefill has content.
        scope: the cache scope of the prompt; None: nothing is cached.
    """

    prompt: ComposedPrompt
    prefill: WrittenPrefill = field(default_factory=WrittenPrefill)
    source: GrammarSource
    budget: ReasoningBudget | None = None
    scope: CacheScope
    thinking_tags: bool = True
    call_limits: CallLimits = NO_LIMITS
    max_repetition: int | None = MAX_REPEATED
    call_ids: frozenset[str] = frozenset()
    envelopes: Envelopes = Envelopes.OFF
    quoted_tools: frozenset[str] = frozenset()

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """The token ids that the model reads before it generates."""
        return self.prompt.tokens + self.prefill.tokens

    @property
    def has_calls(self) -> bool:
        return bool(self.source.policy.select(self.source.tools))

    @property
    def max_content_repetition(self) -> int | None:
        """None where content may not end anywhere: a call or an answer must come, or it is raw."""
        policy = self.source.policy
        if policy.requires_output or policy.answer is not None or self.source.format == TEXT:
            return None
        return self.max_repetition

    @property
    def rewritten_answer(self) -> Schema | None:
        """The schema of a JSON answer that is written as its schema means it. The text after a raw
        prompt stays as the model wrote it: clients join it to the prompt, and count in it."""
        answer = self.source.policy.answer
        if isinstance(answer, JsonAnswer) and self.source.format != TEXT:
            return answer.schema
        return None

    @property
    def hardly_calls(self) -> bool:
        """Whether calls are optional and small models hardly make them: the prompt explains them in
        the generic format, and the conversation has none yet."""
        is_explained = self.source.format.name == GENERIC.name and not self.call_ids
        return is_explained and self.source.policy.choice is Choice.AUTO and self.has_calls

    def check_endless(self) -> None:
        """Refuses a turn that cannot continue until its tokens run out (`ignore_eos`)."""
        if self.has_calls:
            message = "with tools, the turn would make calls without end"
            hint = "Leave ignore_eos or the tools out, or use tool_choice: none"
            raise RequestError(message, where="/ignore_eos", hint=hint)
        if text_ends := self.source.text_ends:
            message = f"turns of this chat template end with a text, {text_ends[0]!r}"
            raise RequestError(message, where="/ignore_eos", hint="Leave it out")


@dataclass(frozen=True, kw_only=True)
class CompiledTurn:
    """A job, compiled for one model. It can be generated any number of times.

    Args:
        markers: the token ids of the format's markers that are one token, by their text.
        completer: finds the shortest ending of a turn, and holds the grammar; None: the turn is
            free text.
        matcher: of the grammar, after the tokens of the prefill; None: the turn is free text.
    """

    plan: TurnPlan
    grammars: GrammarCompiler
    markers: Mapping[str, int]
    completer: Completer | None = None
    matcher: Matcher | None = None
    refused: tuple[Refusal, ...] = ()

    @property
    def prompt(self) -> ComposedPrompt:
        return self.plan.prompt

    @property
    def prefill(self) -> WrittenPrefill:
        return self.plan.prefill

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.plan.tokens

    @property
    def format(self) -> Format:
        return self.plan.source.format

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.plan.source.tools

    @property
    def policy(self) -> Policy:
        return self.plan.source.policy

    @property
    def state(self) -> State:
        return self.plan.source.state

    @property
    def vocabulary(self) -> Vocabulary:
        return self.grammars.vocabulary

    @property
    def grammar(self) -> str | None:
        """The grammar as text for llguidance; None: the turn is free text."""
        return None if self.completer is None else self.completer.grammar.lark

    def constrain(self, offer: Offer) -> "CompiledTurn":
        completer, matcher = self.grammars.compile(self.plan.source, offer)
        return replace(self, completer=completer, matcher=matcher)

    def make_input(self) -> DecodeInput:
        """Returns the input for decoding this turn once, with a new matcher."""
        plan = self.plan
        return DecodeInput(
            prompt=self.tokens,
            breakpoints=self.prompt.breakpoints,
            prefill=self.prefill,
            matcher=self.matcher.fork() if self.matcher else None,
            grammar=None if self.completer is None else self.completer.grammar,
            make_parser=self.make_parser,
            budget=plan.budget,
            build_closing=self.build_closing,
            make_reserve=self.make_reserve,
            make_endless_values=None if plan.max_repetition is None else self.make_endless_values,
            max_content_repetition=plan.max_content_repetition,
            checked_schemas=self.checked_schemas,
            answer=plan.rewritten_answer,
            call_limits=plan.call_limits,
            envelopes=self._make_envelope_rules(),
            openings=self.openings,
            scope=plan.scope,
        )

    @property
    def openings(self) -> tuple[str, ...]:
        """The texts that a call can begin with; () if the turn has no calls."""
        if not self.plan.has_calls:
            return ()
        return tuple(self.format.openings) or self.format.bare_start[:1]

    @cached_property
    def foreign_tools(self) -> tuple[str, ...]:
        """The tools whose calls are delivered in other envelopes, too: where calls are optional,
        and the content is free. Data that calls a tool may be copied, so such a call is text."""
        is_off = self.plan.envelopes is Envelopes.OFF
        if is_off or self.matcher is None or self.policy.requires_output:
            return ()
        names = [tool.name for tool in self.policy.select(self.tools)]
        return tuple(name for name in names if name not in self.plan.quoted_tools)

    def _make_envelope_rules(self) -> EnvelopeRules | None:
        if not self.foreign_tools:
            return None
        return EnvelopeRules(
            keeps=self.plan.envelopes is Envelopes.KEPT,
            list_openings=self._list_openings,
            encode=lambda text: self.vocabulary.encode_marked(text, self.markers),
            continue_in=self._continue_in,
        )

    def _list_openings(self, name: str, has_content: bool) -> list[str]:
        """Lists ways to open a call, without the white space that the next token may have."""
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
        """Makes the input for the rest of a turn that goes on in another format; `lead`: what the
        turn has written of the first call. Raises ToolError, SchemaError or PolicyError: the format
        cannot write it."""
        markers = self.vocabulary.find_markers(format.texts)
        # A call that the data contains could be copied behind the first one.
        parallel = self.policy.parallel and not self.plan.quoted_tools
        source = replace(
            self.plan.source,
            format=format,
            policy=replace(self.policy, parallel=parallel, think=Think.OPTIONAL),
            state=State(lead=lead, calls=self.state.calls),
        )
        completer, matcher = self.grammars.compile_built(source.build(markers), None, source.scope)
        rest = replace(
            self,
            # The turn keeps its policy: the parser reads all of it.
            plan=replace(self.plan, source=replace(source, policy=self.policy), budget=None),
            markers=markers,
            completer=completer,
            matcher=matcher,
        )
        return rest.make_input()

    def begin_at(self, state: State) -> "CompiledTurn":
        """Returns the turn with another start; only its parser is of use."""
        source = replace(self.plan.source, state=state)
        return replace(self, plan=replace(self.plan, source=source))

    def make_parser(self) -> Parser:
        reads_tags = self.plan.thinking_tags and not self.policy.answer
        return Parser(
            self.format,
            self.tools,
            self.state,
            calls=self.plan.has_calls,
            answer=self.policy.answer is not None and self.policy.choice is not Choice.REQUIRED,
            stream=self.matcher is not None,
            thoughts=THINKING_TAGS if reads_tags else None,
            ends=self.plan.source.text_ends,
            foreign=self.foreign_tools,
        )

    @cached_property
    def checked_schemas(self) -> CheckedSchemas:
        """The schemas of values that are checked when they are complete; those of tools that are
        not strict are delivered even if they fail."""
        checked: dict[str, tuple[Schema, CheckedArguments]] = {}
        for tool in self.tools:
            if tool.strict:
                checked[tool.name] = tool.schema, find_checked(tool.schema)
        answer = self.policy.answer
        if isinstance(answer, JsonAnswer) and answer.schema.report.checked:
            return CheckedSchemas(checked, answer)
        return CheckedSchemas(checked)

    @cached_property
    def _growth(self) -> EndingGrowth:
        return estimate_growth(self.tools, self.policy.answer, self.vocabulary)

    def make_reserve(self, limit: int) -> CompletionReserve:
        assert self.completer is not None, "a free turn ends anywhere"
        return CompletionReserve(
            self.completer.fork().complete,
            self.vocabulary,
            markers=self.markers,
            stride=self._growth.of_token,
            longest_rest=self._growth.of_text,
            limit=limit,
        )

    def build_closing(self) -> Grammar:
        """Builds the grammar of a turn that has to end its reasoning now, for a remote engine,
        which cannot count reasoning tokens."""
        policy = replace(self.policy, think=Think.FORBIDDEN)
        state = State(Start.OPEN, calls=self.state.calls)
        return replace(self.plan.source, policy=policy, state=state).build(self.markers)

    def make_endless_values(self) -> EndlessValues:
        assert self.completer is not None, "a free turn has no values"
        assert self.plan.max_repetition is not None
        return EndlessValues(
            self.completer.fork,
            self.vocabulary,
            max_tokens=self.plan.max_repetition,
            has_answer=self.policy.answer is not None,
        )
