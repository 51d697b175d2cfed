"""A request and a model's facts -> a compiled turn: prompt tokens, matcher, parser."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

from constrained.choosing import choose_teaching
from constrained.decoded import MOST_TOKENS, Decoded, DecodedTurns, History, writes_ids
from constrained.encoding import encode_pieces, encode_prompt
from constrained.errors import GrammarError, RequestError
from constrained.grammar_texts import GrammarTexts
from constrained.job import CompiledTurn, Job, check_job
from constrained.mask import Matcher
from constrained.messages import normalise, read_call_ids
from constrained.offer import Offer, Offered, Refusal, read_offer
from constrained.quoting import Prompt, render_prompt
from constrained.splicing import Messages, Recall, Splice, find_thoughts, splice
from constrained.teaching import Teaching, find_teaching
from constrained.template import ChatTemplate
from constrained.thinking import Budget, make_budget
from constrained.tools import as_openai, read_policy
from constrained.vocabulary import Tokenizer, Vocabulary, build_tokenizer
from grammars.detect import count_calls, find_state
from grammars.errors import SchemaError, ToolError
from grammars.lark import build_grammar
from grammars.turn import Choice, GrammarAnswer, KeyOrder, Policy, State, Think
from grammars.wire import Format

CACHED = 32  # compiled grammars; one of 100 tools is about 1 MB


def _teach(template: ChatTemplate, chosen: Format | None) -> Teaching:
    return find_teaching(template) if chosen is None else choose_teaching(template, chosen)


def _forbid(think: Think) -> Think:
    if think is Think.REQUIRED:
        hint = "Leave thinking optional, or raise the budget"
        message = "thinking is required, but its budget is 0"
        raise RequestError(message, where="/reasoning_budget", hint=hint)
    return Think.FORBIDDEN


class _RefusedError(Exception):
    """One of the tools cannot be held."""

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
        remembered: tokens of earlier turns to keep, see `DecodedTurns`; 0: none.

    Raises:
        TemplateError: a template is broken.
        RequestError: the format cannot be taught to this model.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        template: ChatTemplate,
        tool_template: ChatTemplate | None = None,
        tool_format: Format | None = None,
        remembered: int = MOST_TOKENS,
    ):
        self.vocabulary = vocabulary
        self._taught = _teach(tool_template or template, tool_format)
        self._plain = self._taught if tool_template is None else find_teaching(template)
        self.template, self.format = self._taught.template, self._taught.format
        self.notices = tuple(n for n in [self._taught.notice] if n)
        with_ids = any(map(writes_ids, (self._taught.format, self._plain.format)))
        self._decoded = DecodedTurns(remembered, with_ids=with_ids)
        self._compile = lru_cache(maxsize=CACHED)(self._compile_grammar)

    @cached_property
    def markers(self) -> dict[str, int]:
        """Tokens that stand for parts of what the formats write, by their names."""
        return self.vocabulary.find_markers(self._taught.format.texts + self._plain.format.texts)

    @cached_property
    def _texts(self) -> GrammarTexts:
        return GrammarTexts(self.markers, CACHED)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What grammars are compiled against; built once."""
        return build_tokenizer(self.vocabulary, self.markers)

    def compile(self, job: Job) -> CompiledTurn:
        """Renders the prompt, then builds the grammar that starts where it ends.

        A tool that the grammar cannot hold is left out, see `read_offer`.

        Raises:
            ToolError, SchemaError, PolicyError: the tools, the choice or the answer cannot be used.
            TemplateError: the template refuses the messages.
            GrammarError: llguidance refuses the grammar; names the tool that is to blame.
        """
        check_job(job)
        offer = read_offer(job.tools, drop=job.drop_tools, nonempty=job.require_nonempty)
        while True:
            try:
                return self._compile_offer(job, offer)
            except _RefusedError as e:
                if not job.drop_tools:
                    raise e.refusal.error from e
                offer = offer.without(e.refusal)

    def _compile_offer(self, job: Job, offer: Offer) -> CompiledTurn:
        """The turn with these tools.

        Raises:
            _RefusedError: one of them cannot be held.
        """
        policy = read_policy(job.tool_choice, parallel=job.parallel, think=Think(job.think))
        policy = replace(policy, answer=job.answer, key_order=KeyOrder(job.key_order))
        policy = offer.fit(policy)
        policy.select(offer.tools)
        teaching = self._taught if offer.tools else self._plain
        history = self._recall(job, offer, teaching)
        prompt, state = self._start(job, history.messages, offer, teaching)
        spliced = self._splice(job, history, prompt, offer, teaching)
        budget = self._budget(job, teaching.format)
        if budget is not None and budget.tokens == 0:
            policy = replace(policy, think=_forbid(policy.think))
        thinks = policy.think is not Think.OPTIONAL or budget is not None
        grammar, matcher = None, None
        if offer.kept or thinks or policy.answer or policy.choice is Choice.REQUIRED:
            grammar, matcher = self._hold(teaching.format, offer, policy, state)
        tokens, rest = self._encode(prompt, spliced)
        return CompiledTurn(
            prompt,
            tokens,
            teaching.format,
            state,
            offer.tools,
            policy,
            grammar,
            matcher,
            budget,
            self.vocabulary,
            self.markers,
            job.thinking_tags,
            read_call_ids(job.messages),
            offer.refused,
            history.key,
            spliced.thoughts if spliced else find_thoughts(history, prompt),
            rest,
        )

    def _recall(self, job: Job, offer: Offer, teaching: Teaching) -> History:
        """The conversation, and which of its turns this model has generated."""
        with teaching.template.failures():
            messages = normalise(job.messages)
        told = [as_openai(offer.given), dict(job.template_kwargs)]
        history = self._decoded.recall(told, messages)
        return history if job.recall is not Recall.DROP else replace(history, messages=messages)

    def _splice(
        self, job: Job, history: History, prompt: Prompt, offer: Offer, teaching: Teaching
    ) -> Splice | None:
        def render(messages: Messages) -> Prompt:
            return self._render(job, messages, offer, teaching, opened=True)

        ends = {*teaching.format.ends, *self._ends}
        return splice(history, prompt, render, Recall(job.recall), ends)

    def _encode(
        self, prompt: Prompt, spliced: Splice | None
    ) -> tuple[tuple[int, ...], int | None]:
        """The tokens, and how many there are behind those that are taken over."""
        if spliced is None:
            return encode_prompt(prompt, self.vocabulary), None
        rest = encode_pieces(spliced.rest, self.vocabulary, inside=True)
        return (*spliced.turn.prompt, *spliced.turn.tokens, *rest), len(rest)

    def keep(self, turn: CompiledTurn, tokens: Sequence[int], message: Mapping[str, Any]) -> None:
        """Keeps what came of a turn: a conversation that carries the message back goes on from
        these tokens."""
        prompt = array("i", turn.tokens)
        self._decoded.keep(turn.key, Decoded(prompt, array("i", tokens), message, turn.thoughts))

    @cached_property
    def _ends(self) -> frozenset[str]:
        names = self.vocabulary.names
        return frozenset(names[token] for token in self.vocabulary.end if token in names)

    def _budget(self, job: Job, format: Format) -> Budget | None:
        """The reasoning budget; None where the format knows no reasoning."""
        block = format.reasoning
        if job.reasoning_budget is None or block is None:
            return None
        if found := [m for m in format.reserved if m in job.reasoning_close]:
            message = f"it holds the marker {found[0]}"
            raise RequestError(message, where="/reasoning_close", hint="Leave it out")
        return make_budget(
            job.reasoning_budget, block, self.vocabulary, self.markers, job.reasoning_close
        )

    def forget(self) -> None:
        """Drops the compiled grammars: one that failed has spoilt what its forks share."""
        self._compile.cache_clear()

    def _start(
        self, job: Job, messages: Messages, offer: Offer, teaching: Teaching
    ) -> tuple[Prompt, State]:
        """The prompt, and where it ends."""
        prompt = self._render(job, messages, offer, teaching, opened=True)
        plain = self._render(job, messages, offer, teaching, opened=False).text
        return prompt, find_state(prompt.text, plain, teaching.format, count_calls(job.messages))

    def _render(
        self, job: Job, messages: Messages, offer: Offer, teaching: Teaching, *, opened: bool
    ) -> Prompt:
        block = teaching.format.reasoning
        keep = [block.opener.text, block.closer.text] if block else []
        return render_prompt(
            teaching.template,
            messages,
            as_openai(offer.given) or None,
            markers=self._names,
            keep=keep,
            add_generation_prompt=opened,
            variables=job.template_kwargs,
        )

    @cached_property
    def _names(self) -> frozenset[str]:
        """Texts that the tokenizer, or this format, would take for structure."""
        names = {name for name in self.vocabulary.names.values() if len(name.strip()) > 1}
        markers = self._taught.format.markers + self._plain.format.markers
        return frozenset(names | set(markers))

    def _hold(
        self, format: Format, offer: Offer, policy: Policy, state: State
    ) -> tuple[str, Matcher]:
        try:
            grammar = self._texts.find(format, offer.tools, policy, state)
            return grammar, self._compile(grammar).fork()
        except (GrammarError, SchemaError, ToolError) as e:
            if isinstance(policy.answer, GrammarAnswer) and isinstance(e, GrammarError):
                self._check_answer(policy.answer)
            for offered in offer.kept:
                self._blame(format, offered, policy.key_order, state)
            raise e

    def _check_answer(self, answer: GrammarAnswer) -> None:
        try:
            self._compile_grammar(answer.lark)
        except GrammarError as e:
            raise GrammarError(f"the grammar of the answer: {e.message}", where="/grammar") from e

    def _blame(self, format: Format, offered: Offered, order: KeyOrder, state: State) -> None:
        """Raises if this tool, by itself, cannot be held."""
        tool, policy = offered.tool, Policy(key_order=order)
        try:
            self._compile_grammar(build_grammar(format, [tool], policy, state, self.markers))
        except GrammarError as e:
            message = f"the schema of tool {tool.name!r} cannot be enforced: {e.message}"
            error = SchemaError(message, where=f"/tools/{offered.place}", hint="Simplify it")
            raise _RefusedError(Refusal(tool.name, error)) from e
        except (SchemaError, ToolError) as e:
            raise _RefusedError(Refusal(tool.name, e)) from e

    def _compile_grammar(self, grammar: str) -> Matcher:
        return Matcher.compile(self.tokenizer, grammar)
