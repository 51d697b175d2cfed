"""Compiles a job to a turn: reads the tools, renders the prompt and builds the grammar that starts
where the prompt ends. `grammar_compiler` has the part between grammar and matcher."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any, TypedDict

from constrained.decode.reasoning_budget import ReasoningBudget, make_budget
from constrained.engine.vocabulary.vocabulary import Tokenizer, Vocabulary
from constrained.errors import GrammarError, RequestError
from constrained.model.compile.compiled_turn import CompiledTurn, TurnPlan
from constrained.model.compile.grammar_compiler import (
    FormatGrammars,
    GrammarCompiler,
    GrammarSource,
    RefusedToolError,
)
from constrained.model.compile.prefilled_turn import add_prefill, narrow_policy, narrow_state
from constrained.prompt.assistant_prefill import AssistantPrefill, read_prefill
from constrained.prompt.cache_scope import name_scope
from constrained.prompt.format_selection.kwargs_selection import MAX_KEPT, FormatByKwargs
from constrained.prompt.format_selection.selection import SelectedFormat, end_turns, select_format
from constrained.prompt.job import (
    MAX_IDENTICAL_CALLS,
    MAX_REPEATED,
    CallLimits,
    Envelopes,
    Job,
    check_job,
)
from constrained.prompt.messages import read_call_ids
from constrained.prompt.prompts import TEXT, Prompts, check_text
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.environment import freeze
from constrained.prompt.template.rendering import REQUEST_SECONDS, limit_renderings
from constrained.prompt.tools.offer import Offer, read_offer
from constrained.prompt.tools.quoted_calls import find_quoted_tools
from constrained.prompt.tools.shapes import read_policy
from constrained.prompt.turn_boundaries import find_text_ends
from constrained.prompt.turn_cache import MAX_TOKENS
from grammars.limits.byte_cache import MIB, ByteCache, CacheSize
from grammars.limits.steps import StepsError, limit_steps
from grammars.turn import Answer, KeyOrder, Policy, Think
from grammars.turn_grammar.ir.grammar import Grammar
from grammars.wire.format import Format

KNOWN = MIB // 8  # of the names of grammars that were compiled last: some 350
MAX_STEPS = 400_000
"""Of compiling one job, all its tools together; 1,000 tools of 20 arguments take 250,000."""


class RawOptions(TypedDict, total=False):
    cache_salt: str | None
    cache_prompt: bool
    max_repetition: int | None


class Compiler:
    """Compiles jobs for one vocabulary and chat template; keeps compiled grammars.

    Args:
        tool_template: the template for jobs with tools; None: `template`.
        remembered: how many tokens of earlier turns to keep, see `TurnCache`; 0: none.
        context_length: in tokens; a prompt that fills it is refused. None: any length.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        template: ChatTemplate,
        tool_template: ChatTemplate | None = None,
        *,
        tool_format: Format | None = None,
        remembered: int = MAX_TOKENS,
        context_length: int | None = None,
    ):
        self.vocabulary = vocabulary
        self._with_tools = _find_formats(vocabulary, tool_template or template, tool_format)
        self._without_tools = self._with_tools
        if tool_template is not None:
            self._without_tools = _find_formats(vocabulary, template, None)
        selected = self._with_tools.default
        self.template, self.format = selected.template, selected.format
        self.notices = tuple(filter(None, [selected.notice]))
        formats = (selected.format, self._without_tools.default.format)
        self.prompts = Prompts(
            vocabulary, formats, remembered=remembered, context_length=context_length
        )
        self._context_length = context_length
        find_ends = partial(find_text_ends, vocabulary=vocabulary)
        self._find_text_ends = lru_cache(MAX_KEPT)(find_ends)
        texts = formats[0].texts + formats[1].texts
        self._grammars = FormatGrammars(vocabulary, texts, context_length)
        self._known: ByteCache[bool] = ByteCache(KNOWN)  # by name

    @property
    def markers(self) -> dict[str, int]:
        return self._grammars.usual.markers

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what prompts depend on besides the request: the vocabulary, the templates."""
        selected = self._with_tools.default, self._without_tools.default
        sources = tuple(each.template.source for each in selected)
        text = repr((self.vocabulary.fingerprint, sources, self.format.name))
        return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()

    @property
    def tokenizer(self) -> Tokenizer:
        return self._grammars.usual.tokenizer

    def compile(self, job: Job) -> CompiledTurn:
        """Renders the prompt, then builds the grammar that starts where the prompt ends. A tool
        that it cannot enforce is left out, see `read_offer`. GrammarError: llguidance refuses the
        grammar of all tools together; ToolError, SchemaError, PolicyError: the tools, the choice or
        the answer cannot be used; TemplateError, RequestError, ContextError: the messages, a field,
        or their length."""
        check_job(job)
        # Not in the steps of the job: what it infers is kept for others.
        self._choose_formats(job).find(job.template_kwargs)
        try:
            with limit_steps(MAX_STEPS):
                turn = self._compile_job(job)
                turn.checked_schemas  # noqa: B018  here, so that it counts as steps of this
        except StepsError as error:
            where = "/tools" if job.tools else "/response_format"
            message = "its schemas take too many steps to compile"
            raise GrammarError(message, where=where, hint=error.hint or "Simplify them") from error
        if job.grammar_name:
            self._known.keep(job.grammar_name, True)
        return turn

    def measure_caches(self) -> dict[str, CacheSize]:
        return {**self.prompts.measure_caches(), **self._grammars.measure_caches()}

    def knows(self, job: Job) -> bool:
        """Returns whether the grammar of the job is in the cache, or it needs none."""
        name = job.grammar_name
        if name is None or (name and not self._known.find(name, False)):
            return False
        return self._choose_formats(job).knows(job.template_kwargs)

    def refuses(self, values: Mapping[str, bool | str]) -> bool:
        """Returns whether the template, or the format of its turns, does not allow these values."""
        return self._with_tools.refuses(values)

    def _choose_formats(self, job: Job) -> FormatByKwargs:
        return self._with_tools if job.tools or job.hidden_tools else self._without_tools

    def _compile_job(self, job: Job) -> CompiledTurn:
        job, prefill = read_prefill(job, self.template)
        check_text(prefill.content + prefill.reasoning, self.vocabulary, self._context_length)
        offer = read_offer(
            job.tools,
            hidden=job.hidden_tools,
            drop=job.drop_tools,
            nonempty=job.require_nonempty,
            room=self._grammars.usual.max_characters,
            scope=job.grammar_scope,
        )
        while True:
            try:
                with freeze(job.date), limit_renderings(REQUEST_SECONDS):
                    return self._compile_offer(job, offer, prefill)
            except RefusedToolError as error:
                looser = offer.loosen(error.refusal.name)
                if looser is None and not job.drop_tools:
                    raise error.refusal.error from error
                offer = looser or offer.without(error.refusal)

    def compile_text(
        self,
        prompt: str | Sequence[int],
        answer: Answer | None = None,
        *,
        cache_salt: str | None = None,
        cache_prompt: bool = True,
        max_repetition: int | None = MAX_REPEATED,
    ) -> CompiledTurn:
        """Compiles a raw prompt, without a chat template; all generated text is content. In text,
        names of special tokens are these tokens, and BOS is added if the model needs one."""
        scope, composed = name_scope(cache_salt), self.prompts.compose_raw(prompt)
        policy = Policy(answer=answer)
        source = GrammarSource(TEXT, (), policy=policy, state=composed.state, scope=scope)
        plan = TurnPlan(
            prompt=composed,
            source=source,
            scope=scope if cache_prompt else None,
            thinking_tags=False,
            max_repetition=max_repetition,
        )
        turn = _begin(plan, self._grammars.usual)
        return turn if answer is None else turn.constrain(Offer())

    def attach(self, plan: TurnPlan, grammar: Grammar | None) -> CompiledTurn:
        """Makes a compiled turn of one that another process has compiled; GrammarError: llguidance
        refuses the grammar, or the tokens of the prefill."""
        source = plan.source
        turn = _begin(plan, self._grammars.find(source.format))
        if grammar is None:
            return turn
        answer, scope = source.policy.answer, source.scope
        completer, matcher = turn.grammars.compile_built(grammar, answer, scope)
        for token in plan.prefill.tokens[plan.prefill.outside :]:
            matcher.commit(token)
        return replace(turn, completer=completer, matcher=matcher)

    def keep(self, turn: CompiledTurn, tokens: Sequence[int], message: Mapping[str, Any]) -> None:
        """Caches the token ids of a generated turn, without its end, for the next prompt."""
        prefill = turn.prefill
        full_message = prefill.message.join(message)
        self.prompts.keep(turn.prompt, (*prefill.tokens, *tokens), full_message)

    def _compile_offer(self, job: Job, offer: Offer, prefill: AssistantPrefill) -> CompiledTurn:
        """Compiles the turn with these tools; RefusedToolError: one cannot be enforced."""
        policy, call_limits = _fit_policy(job, offer), _read_call_limits(job, offer)
        formats = self._with_tools if offer.tools else self._without_tools
        selected = formats.find(job.template_kwargs)
        prompt = self.prompts.compose(job, offer.shown, selected)
        grammars = self._grammars.find(selected.format)
        budget = _make_budget(job, selected.format, policy, grammars)
        if budget is not None and budget.tokens == 0:
            policy = replace(policy, think=_forbid_thinking(policy.think))
        format, policy = selected.guard_text(policy, job.messages, has_tools=bool(offer.tools))
        policy = narrow_policy(prefill, policy)
        text_ends: tuple[str, ...] = ()
        if policy.answer is None:  # an answer may contain any text, and its grammar ends the turn
            text_ends = self._find_text_ends(selected.template, format)
        source = GrammarSource(
            format,
            tools=offer.tools,
            policy=policy,
            state=narrow_state(prefill, prompt.state, format),
            text_ends=text_ends,
            scope=job.grammar_scope,
        )
        quoted = frozenset[str]()
        if job.envelopes != Envelopes.OFF and not policy.requires_output:
            quoted = find_quoted_tools(job.messages, [tool.name for tool in offer.tools])
        plan = TurnPlan(
            prompt=prompt,
            source=source,
            budget=budget,
            scope=job.grammar_scope if job.cache_prompt else None,
            thinking_tags=job.thinking_tags,
            call_limits=call_limits,
            max_repetition=job.max_repetition,
            call_ids=read_call_ids(job.messages),
            envelopes=Envelopes(job.envelopes),
            quoted_tools=quoted,
        )
        turn = replace(_begin(plan, grammars), refused=offer.refused)
        limits_thinking = policy.think is not Think.OPTIONAL or budget is not None
        if offer.kept or policy.excluded or limits_thinking or policy.requires_output:
            turn = turn.constrain(offer)
        return add_prefill(turn, prefill)

    def forget(self) -> None:
        """Drops the compiled grammars: a failed one may have damaged what its forks share."""
        self._grammars.forget()


def _find_formats(
    vocabulary: Vocabulary, template: ChatTemplate, chosen: Format | None
) -> FormatByKwargs:
    special = frozenset(vocabulary.named.values())
    ends = [vocabulary.names[token] for token in vocabulary.end if token in vocabulary.names]

    def select(template: ChatTemplate) -> SelectedFormat:
        return end_turns(select_format(template, chosen, special_tokens=special), ends)

    return FormatByKwargs(template, select)


def _begin(plan: TurnPlan, grammars: GrammarCompiler) -> CompiledTurn:
    return CompiledTurn(plan=plan, grammars=grammars, markers=grammars.markers)


def _make_budget(
    job: Job, format: Format, policy: Policy, grammars: GrammarCompiler
) -> ReasoningBudget | None:
    """Returns the reasoning budget; None: no limit. Where a call or an answer is required, there is
    one: endless reasoning would leave no tokens for it."""
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
        grammars.vocabulary,
        markers=grammars.markers,
        sentence=job.reasoning_close,
    )


def _fit_policy(job: Job, offer: Offer) -> Policy:
    policy = read_policy(job.tool_choice, parallel=job.parallel, think=Think(job.think))
    policy = replace(policy, answer=job.answer, key_order=KeyOrder(job.key_order))
    policy = offer.fit(policy)
    policy.select(offer.tools)
    return policy


def _read_call_limits(job: Job, offer: Offer) -> CallLimits:
    identical, repeatable = job.max_identical_calls, frozenset[str]()
    if identical == "auto":
        identical, repeatable = MAX_IDENTICAL_CALLS, offer.repeatable
    return CallLimits(
        calls=job.max_calls,
        identical=identical,
        repeatable=repeatable,
        excluded=tuple(job.excluded_calls),
    )


def _forbid_thinking(think: Think) -> Think:
    if think is Think.REQUIRED:
        hint = "Leave thinking optional, or raise the budget"
        message = "thinking is required, but its budget is 0"
        raise RequestError(message, where="/reasoning_budget", hint=hint)
    return Think.FORBIDDEN
