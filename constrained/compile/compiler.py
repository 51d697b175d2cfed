"""A request and a model's facts -> a compiled turn: prompt tokens, matcher, parser."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

from constrained.assistant_prefill import AssistantPrefill, read_prefill
from constrained.cache_scope import COMMON, name_scope
from constrained.compile.assistant_prefill import add_prefill, narrow_policy, narrow_state
from constrained.compile.compiled_turn import CompiledTurn
from constrained.compile.detached_turn import DetachedTurn, TurnConstraints
from constrained.decode.reasoning_budget import ReasoningBudget, make_budget
from constrained.errors import GrammarError, RequestError
from constrained.format_selection.selection import end_turns, select_format
from constrained.job import CallLimits, Job, check_job
from constrained.mask import Matcher, find_regex_fault
from constrained.messages import read_call_ids
from constrained.prompt.encoding import check_text
from constrained.prompt.prompts import TEXT, Prompts
from constrained.prompt.turn_boundaries import find_text_ends
from constrained.prompt.turn_cache import MOST_TOKENS
from constrained.template.chat_template import ChatTemplate, freeze
from constrained.template.work_limits import MOST_REQUEST_STEPS, limit_work
from constrained.tools.offer import Offer, Offered, Refusal, read_offer
from constrained.tools.shapes import read_policy
from constrained.vocabulary.vocabulary import Tokenizer, Vocabulary, build_tokenizer
from grammars.build.answer import read_regex
from grammars.build.turn import build_turn
from grammars.byte_cache import MIB, ByteCache, CacheSize, measure_bytes
from grammars.errors import SchemaError, ToolError
from grammars.ir.completion import Completer
from grammars.ir.grammar import Grammar
from grammars.long_json import pack_key
from grammars.schema.extent import find_long_part
from grammars.steps import StepsError, limit_steps
from grammars.turn import (
    Answer,
    ChoiceAnswer,
    GrammarAnswer,
    JsonAnswer,
    KeyOrder,
    Policy,
    RegexAnswer,
    State,
    Think,
    Tool,
)
from grammars.wire.format import Format

_GRAMMAR, _REGEX = "/grammar", "/regex"
MATCHERS = 64 * MIB  # those of compiled grammars; one of three tools takes 0.3 MB at first
LARGEST = 0.5  # of these is one grammar; when its lexer has learnt more, it is compiled anew
COMPLETERS = 32 * MIB
COMPLETER_BYTES, CHARACTER_BYTES = 20_000, 60  # of a completer and its grammar; of its text
KNOWN = 256  # grammars that were compiled last, by name
MOST_STEPS = 400_000
"""Of compiling one job, all its tools together; 1,000 tools of 20 arguments take 250,000."""


def _forbid(think: Think) -> Think:
    if think is Think.REQUIRED:
        hint = "Leave thinking optional, or raise the budget"
        message = "thinking is required, but its budget is 0"
        raise RequestError(message, where="/reasoning_budget", hint=hint)
    return Think.FORBIDDEN


@dataclass(frozen=True)
class GrammarSource:
    """All that the grammar of a turn depends on, beside the vocabulary; and the scope of those who
    share it."""

    format: Format
    tools: tuple[Tool, ...]
    policy: Policy
    state: State
    text_ends: tuple[str, ...] = ()
    scope: str = COMMON

    def build(self, markers: Mapping[str, int]) -> Grammar:
        """The grammar, for these token ids of markers; see `build_turn`."""
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
    """A completer with its grammar, and the tools that these are of.

    Schemas are known by their `id`, so they are kept, too: no other one may get it. Nobody else may
    have them any more, so they count.
    """

    tools: Sequence[Tool]
    tools_bytes: int
    completer: Completer

    def measure(self) -> int:
        """The bytes of all of it, about."""
        text = CHARACTER_BYTES * len(self.completer.grammar.lark)
        return self.tools_bytes + COMPLETER_BYTES + text + self.completer.measure()


class GrammarCache:
    """Builds grammars, and keeps the last ones: the same tools come again with each turn of a
    conversation.

    Args:
        markers: token ids of the formats' markers that are one token.
    """

    def __init__(self, markers: Mapping[str, int]):
        self._markers = markers
        self._kept: ByteCache[_KeptGrammar] = ByteCache(COMPLETERS, _KeptGrammar.measure)

    @property
    def size(self) -> CacheSize:
        """How much is kept."""
        return self._kept.size

    def find(self, source: GrammarSource) -> Completer:
        """The completer of turns of this grammar, which it has.

        A grammar with an answer is not looked up: that may be any schema.
        """
        if source.policy.answer is not None:
            return Completer(source.build(self._markers))
        schemas = tuple((tool.name, id(tool.schema)) for tool in source.tools)
        source_key = source.format.name, source.policy, source.state, source.text_ends
        key = (source.scope, schemas, source_key)
        kept = self._kept.find(key, None)
        if kept is not None:
            return kept.completer
        completer = Completer(source.build(self._markers))
        kept = _KeptGrammar(source.tools, measure_bytes(source.tools), completer)
        self._kept.keep(key, kept)
        return completer


_NO_GRAMMAR = b""


def _name_grammar(job: Job) -> bytes | None:
    """A name of all in a job that its grammar depends on, but for where the prompt ends, and of its
    scope; None: it has tools or an answer that are no JSON."""
    answer: Any = None
    match job.answer:
        case None:
            if not job.tools and not job.hidden_tools:
                return _NO_GRAMMAR
        case JsonAnswer(schema):
            answer = "json", schema.source
        case RegexAnswer(regex):
            answer = "regex", regex
        case ChoiceAnswer(options):
            answer = "choice", options
        case GrammarAnswer(lark):
            answer = "grammar", lark
    options = (str(job.think), str(job.key_order), job.parallel, job.require_nonempty)
    tools = (job.tools, job.hidden_tools)
    packed = pack_key([tools, job.tool_choice, answer, options, job.grammar_scope])
    return None if packed is None else hashlib.blake2b(packed, digest_size=16).digest()


class _RefusedError(Exception):
    """The grammar cannot enforce one of the tools."""

    def __init__(self, refusal: Refusal):
        self.refusal = refusal
        super().__init__(str(refusal))


class Compiler:
    """Compiles jobs for one vocabulary and chat template; keeps compiled grammars.

    Args:
        vocabulary: that of the model.
        template: its chat template.
        tool_template: what is used in its place where tools are offered.
        tool_format: the format of calls, in place of the one that the template teaches.
        remembered: tokens of earlier turns to keep, see `TurnCache`; 0: none.
        context_length: in tokens; a prompt that fills it is refused. None: any prompt is compiled.

    Raises:
        TemplateError: a template is broken.
        RequestError: the format cannot be taught to this model.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        template: ChatTemplate,
        tool_template: ChatTemplate | None = None,
        *,
        tool_format: Format | None = None,
        remembered: int = MOST_TOKENS,
        context_length: int | None = None,
    ):
        self.vocabulary = vocabulary
        special = frozenset(vocabulary.named.values())
        ends = [vocabulary.names[token] for token in vocabulary.end if token in vocabulary.names]
        selected = select_format(tool_template or template, tool_format, special_tokens=special)
        self._taught = self._plain = end_turns(selected, ends)
        if tool_template is not None:
            self._plain = end_turns(select_format(template, special_tokens=special), ends)
        self.template, self.format = self._taught.template, self._taught.format
        self.notices = tuple(filter(None, [self._taught.notice]))
        formats = (self._taught.format, self._plain.format)
        self.prompts = Prompts(
            vocabulary, formats, remembered=remembered, context_length=context_length
        )
        self._context_length = context_length
        self._find_text_ends = cache(partial(find_text_ends, vocabulary=vocabulary))
        self._matchers: ByteCache[Matcher] = ByteCache(MATCHERS, Matcher.measure, largest=LARGEST)
        self._known: OrderedDict[bytes, None] = OrderedDict()  # grammars that are kept, by name
        self._lock = threading.Lock()  # of these

    @cached_property
    def markers(self) -> dict[str, int]:
        """Tokens that stand for parts of what the formats write, by their names."""
        return self.vocabulary.find_markers(self._taught.format.texts + self._plain.format.texts)

    @cached_property
    def fingerprint(self) -> str:
        """Names what tokens of prompts depend on, beside the request: vocabulary and templates."""
        sources = self._taught.template.source, self._plain.template.source
        text = repr((self.vocabulary.fingerprint, sources, self.format.name))
        return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()

    @cached_property
    def _grammars(self) -> GrammarCache:
        return GrammarCache(self.markers)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """llguidance's tokenizer, which grammars are compiled against; built once."""
        return build_tokenizer(self.vocabulary, self.markers)

    def compile(self, job: Job) -> CompiledTurn:
        """Renders the prompt, then builds the grammar that starts where it ends.

        A tool that the grammar cannot enforce is left out, see `read_offer`.

        Raises:
            ToolError, SchemaError, PolicyError: the tools, the choice or the answer cannot be used.
            TemplateError: the template refuses the messages.
            GrammarError: llguidance refuses the grammar; names the tool that is to blame.
            RequestError: a field of the job has no such value, or no turn can go on with the text.
            ContextError: the prompt, or the text to go on with, fills the context.
        """
        name = _name_grammar(job)
        try:
            with limit_steps(MOST_STEPS):
                turn = self._compile_job(job)
                _ = turn.watch  # else it would be found out where the turn is started
        except StepsError as error:
            where = "/tools" if job.tools else "/response_format"
            message = "its schemas take too many steps to compile"
            raise GrammarError(message, where=where, hint=error.hint or "Simplify them") from error
        if name is not None:
            with self._lock:
                self._known[name] = None
                self._known.move_to_end(name)
                if len(self._known) > KNOWN:
                    self._known.popitem(last=False)
        return turn

    def measure_caches(self) -> dict[str, CacheSize]:
        """What it keeps of earlier jobs, by name; see `Metrics.caches`."""
        return {
            "matchers": self._matchers.size,
            "completers": self._grammars.size,
            **self.prompts.measure_caches(),
        }

    def knows(self, job: Job) -> bool:
        """True if the grammar of such a job is kept, or it needs none: only the prompt is new."""
        name = _name_grammar(job)
        return name is not None and (name == _NO_GRAMMAR or name in self._known)

    def _compile_job(self, job: Job) -> CompiledTurn:
        check_job(job)
        job, prefill = read_prefill(job, self.template)
        check_text(prefill.content + prefill.reasoning, self.vocabulary, self._context_length)
        offer = read_offer(
            job.tools,
            hidden=job.hidden_tools,
            drop=job.drop_tools,
            nonempty=job.require_nonempty,
            room=self._room,
            scope=job.grammar_scope,
        )
        while True:
            try:
                with freeze(job.date), limit_work(MOST_REQUEST_STEPS):
                    return self._compile_offer(job, offer, prefill)
            except _RefusedError as e:
                if not job.drop_tools:
                    raise e.refusal.error from e
                offer = offer.without(e.refusal)

    def compile_text(
        self,
        prompt: str | Sequence[int],
        answer: Answer | None = None,
        *,
        cache_salt: str | None = None,
        cache_prompt: bool = True,
    ) -> CompiledTurn:
        """A turn behind a prompt that no template writes: its content is all that is generated, as
        it is written.

        Args:
            prompt: text, in which the names of special tokens are these, with a BOS in front if
                the model wants it; or token ids as they are.
            answer: what the content has to be, from its first token on; None: any text.
            cache_salt: as in `Job`.
            cache_prompt: as in `Job`.

        Raises:
            RequestError: the prompt is empty, or no text and no tokens of this model.
            ContextError: it fills the context.
            GrammarError, SchemaError: the answer cannot be enforced.
        """
        scope = name_scope(cache_salt)
        composed = self.prompts.compose_raw(prompt)
        policy = Policy(answer=answer)
        completer, matcher = None, None
        if answer is not None:
            source = GrammarSource(TEXT, tools=(), policy=policy, state=composed.state, scope=scope)
            completer, matcher = self._constrain(source, Offer())
        return CompiledTurn(
            prompt=composed,
            format=TEXT,
            policy=policy,
            state=composed.state,
            completer=completer,
            matcher=matcher,
            vocabulary=self.vocabulary,
            markers=self.markers,
            scope=scope if cache_prompt else None,
            thinking_tags=False,
        )

    def attach(self, turn: DetachedTurn, constraints: TurnConstraints) -> CompiledTurn:
        """The turn that another process has compiled, with the vocabulary of this one, which has to
        be the same.

        Raises:
            GrammarError: llguidance refuses the grammar, or the tokens of the prefix.
        """
        completer, matcher = None, None
        if constraints.grammar is not None:
            completer = Completer(constraints.grammar)
            lark, where = completer.grammar.lark, _locate_answer(turn.policy.answer)
            if turn.scope is None:  # nothing is kept of the request
                matcher = self._compile_grammar(lark, where)
            else:
                matcher = self._compile(lark, where, turn.scope).fork()
            for token in turn.prefix.tokens[turn.prefix.outside :]:
                matcher.commit(token)
        return CompiledTurn(
            prompt=turn.prompt,
            format=turn.format,
            tools=constraints.tools,
            policy=turn.policy,
            state=turn.state,
            completer=completer,
            matcher=matcher,
            budget=turn.budget,
            vocabulary=self.vocabulary,
            markers=self.markers,
            scope=turn.scope,
            thinking_tags=turn.thinking_tags,
            call_limits=turn.call_limits,
            max_repetition=turn.max_repetition,
            call_ids=turn.call_ids,
            text_ends=turn.text_ends,
            prefix=turn.prefix,
        )

    def keep(self, turn: CompiledTurn, tokens: Sequence[int], message: Mapping[str, Any]) -> None:
        """Caches what came of a turn: a conversation that carries the message back, behind what it
        went on with, goes on from these tokens.

        Args:
            turn: as compiled.
            tokens: the generated ids, without the end of the turn.
            message: what was generated, in OpenAI form, arguments as objects.
        """
        prefix = turn.prefix
        whole = prefix.prefill.join(message)
        self.prompts.keep(turn.prompt, (*prefix.tokens, *tokens), whole)

    def _compile_offer(self, job: Job, offer: Offer, prefill: AssistantPrefill) -> CompiledTurn:
        """The turn with these tools.

        Raises:
            _RefusedError: one of them cannot be enforced.
        """
        policy = read_policy(job.tool_choice, parallel=job.parallel, think=Think(job.think))
        policy = replace(policy, answer=job.answer, key_order=KeyOrder(job.key_order))
        policy = offer.fit(policy)
        policy.select(offer.tools)
        teaching = self._taught if offer.tools else self._plain
        format = teaching.format
        prompt = self.prompts.compose(job, offer.shown, teaching)
        budget = self._budget(job, format, policy)
        if budget is not None and budget.tokens == 0:
            policy = replace(policy, think=_forbid(policy.think))
        policy = narrow_policy(prefill, policy)
        state = narrow_state(prefill, prompt.state, format)
        limits_thinking = policy.think is not Think.OPTIONAL or budget is not None
        text_ends: tuple[str, ...] = ()
        if policy.answer is None:  # which may have any text in it, and ends by itself
            text_ends = self._find_text_ends(teaching.template, format)
        completer, matcher = None, None
        if offer.kept or limits_thinking or policy.requires_output:
            source = GrammarSource(
                format,
                tools=offer.tools,
                policy=policy,
                state=state,
                text_ends=text_ends,
                scope=job.grammar_scope,
            )
            completer, matcher = self._constrain(source, offer)
        turn = CompiledTurn(
            prompt=prompt,
            format=format,
            tools=offer.tools,
            policy=policy,
            state=state,
            completer=completer,
            matcher=matcher,
            budget=budget,
            vocabulary=self.vocabulary,
            markers=self.markers,
            scope=job.prompt_scope,
            thinking_tags=job.thinking_tags,
            call_limits=CallLimits(
                calls=job.max_calls,
                identical=job.max_identical_calls,
                excluded=tuple(job.excluded_calls),
            ),
            max_repetition=job.max_repetition,
            call_ids=read_call_ids(job.messages),
            text_ends=text_ends,
            refused=offer.refused,
        )
        return add_prefill(turn, prefill)

    def _budget(self, job: Job, format: Format, policy: Policy) -> ReasoningBudget | None:
        """The reasoning budget; None where nothing bounds the reasoning, or the format knows none.

        Where a call or an answer has to follow, a model that reasons without end would leave no
        tokens for it.
        """
        block = format.reasoning
        if block is None or (job.reasoning_budget is None and not policy.requires_output):
            return None
        for marker in format.reserved:
            if marker in job.reasoning_close:
                message = f"it contains the marker {marker}"
                raise RequestError(message, where="/reasoning_close", hint="Leave it out")
        return make_budget(
            job.reasoning_budget,
            block,
            self.vocabulary,
            markers=self.markers,
            sentence=job.reasoning_close,
        )

    def forget(self) -> None:
        """Drops the compiled grammars: one that failed has spoilt what its forks share."""
        self._matchers.clear()

    def _constrain(self, source: GrammarSource, offer: Offer) -> tuple[Completer, Matcher]:
        """The completer and the matcher of a grammar.

        Raises:
            _RefusedError: a tool cannot be enforced.
            GrammarError, SchemaError, ToolError: something else of it cannot.
        """
        _ = self.tokenizer  # what is wrong with that is not the doing of the request
        try:
            completer = self._grammars.find(source)
            self._check_length(completer, source)
            # A turn moves its matcher along: the one that is kept stays at the start.
            where = _locate_answer(source.policy.answer)
            matcher = self._compile(completer.grammar.lark, where, source.scope)
            return completer, matcher.fork()
        except (GrammarError, SchemaError, ToolError) as e:
            if isinstance(e, GrammarError):
                self._check_answer(source)
            for offered in offer.kept:
                self._check_tool(source, offered)
            if isinstance(e, GrammarError) and offer.kept:  # none by itself: all of them together
                raise GrammarError(e.message, where="/tools", hint=e.hint) from e
            if isinstance(e, GrammarError) and e.where is None and source.policy.answer is not None:
                raise GrammarError(
                    e.message, where=_locate_answer(source.policy.answer), hint=e.hint
                ) from e
            raise

    @cached_property
    def _room(self) -> int | None:
        """The characters that fit into the context, at most; None: any number."""
        if self._context_length is None:
            return None
        return self._context_length * self.vocabulary.longest

    def _check_length(self, completer: Completer, source: GrammarSource) -> None:
        """Refuses a grammar of turns that no context has room for. Tools are refused before, with
        the pointer of what is too long; so it is the answer, or it is all that has to be called."""
        least, room = completer.least, self._room
        if least is None or room is None or least <= room:
            return
        where, hint = "/tools", "Lower the minima, or raise the context length (-c)"
        match source.policy.answer:
            case None:
                pass
            case JsonAnswer(schema):
                where = "/response_format"
                if schema.least > room:
                    part = find_long_part(schema.node, schema.definitions, room)
                    hint = f"Lower the minimum at {part or 'the root'} of its schema"
            case GrammarAnswer():
                where = "/grammar"
            case RegexAnswer():
                where = "/regex"
            case ChoiceAnswer():
                where = "/choice"
        message = f"the shortest turn has {least:,} characters, the context room for {room:,}"
        raise RequestError(message, where=where, hint=hint)

    def _check_answer(self, source: GrammarSource) -> None:
        """Raises if the answer, by itself, cannot be enforced."""
        where = "/response_format"
        match source.policy.answer:
            case None:
                return
            case GrammarAnswer(lark):
                where = _GRAMMAR
            case RegexAnswer(regex):
                where, lark = _REGEX, f"start: /{read_regex(regex)}/"
            case answer:
                alone = Policy(answer=answer, key_order=source.policy.key_order)
                lark = replace(source, tools=(), policy=alone).build(self.markers).lark
        try:
            self._compile_grammar(lark, where)
        except GrammarError as e:
            if isinstance(source.policy.answer, RegexAnswer):
                _check_regex(source.policy.answer.regex, e)
            kind = "answer"
            if where != "/response_format":
                kind = f"{where[1:]} of the answer"
            hint = "Ask for something simpler" if e.hint else None
            raise GrammarError(f"the {kind}: {e.message}", where=where, hint=hint) from e

    def _check_tool(self, source: GrammarSource, offered: Offered) -> None:
        """Raises if this tool, by itself, cannot be enforced."""
        tool, policy = offered.tool, Policy(key_order=source.policy.key_order)
        alone = replace(source, tools=(tool,), policy=policy)
        try:
            self._compile_grammar(alone.build(self.markers).lark, None)
        except GrammarError as e:
            message = f"the schema of tool {tool.name!r} cannot be enforced: {e.message}"
            error = SchemaError(message, where=offered.where, hint="Simplify it")
            raise _RefusedError(Refusal(tool.name, error)) from e
        except (SchemaError, ToolError) as e:
            raise _RefusedError(Refusal(tool.name, e)) from e

    def _compile(self, grammar: str, where: str | None, scope: str) -> Matcher:
        """The matcher of a grammar, at its start; `scope` tells apart for whom it is kept."""
        key = grammar, where, scope
        matcher = self._matchers.find(key, None)
        if matcher is None:
            matcher = self._compile_grammar(grammar, where)
            self._matchers.keep(key, matcher)
        return matcher

    def _compile_grammar(self, grammar: str, where: str | None) -> Matcher:
        is_own = where not in (_GRAMMAR, _REGEX)
        return Matcher.compile(self.tokenizer, grammar, is_own=is_own, where=where)


def _locate_answer(answer: Answer | None) -> str:
    """Where the request asks for a grammar: the part of it that can cost most."""
    match answer:
        case GrammarAnswer():
            return _GRAMMAR
        case RegexAnswer():
            return _REGEX
        case None:
            return "/tools"
        case _:
            return "/response_format"


def _check_regex(regex: str, cause: GrammarError) -> None:
    """Raises a GrammarError with the place in the user's expression, if that is not valid. Rust's
    parser has seen another one, with groups around it."""
    fault = find_regex_fault(regex)
    if fault is not None:
        problem, at = fault
        message = f"the regular expression is not valid at character {at + 1}: {problem}"
        hint = "Write it in the syntax of Rust's regex, or of JavaScript without look-around"
        raise GrammarError(message, where=_REGEX, hint=hint) from cause
