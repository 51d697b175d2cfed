"""A request and a model's facts -> a compiled turn: prompt tokens, matcher, parser."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from constrained.choosing import choose_teaching
from constrained.errors import GrammarError, RequestError
from constrained.job import CompiledTurn, Job, check_job
from constrained.mask import Matcher
from constrained.messages import read_call_ids
from constrained.quoting import Prompt, render_prompt
from constrained.teaching import Teaching, find_teaching
from constrained.template import ChatTemplate
from constrained.thinking import Budget, make_budget
from constrained.tools import as_openai, read_policy, read_tools
from constrained.vocabulary import Tokenizer, Vocabulary, build_tokenizer
from grammars.detect import count_calls, find_state
from grammars.errors import SchemaError
from grammars.lark import build_grammar
from grammars.turn import Choice, GrammarAnswer, Policy, State, Think, Tool
from grammars.wire import Format

CACHED = 32  # compiled grammars; one of 100 tools is about 1 MB


def encode_prompt(prompt: Prompt, vocabulary: Vocabulary) -> tuple[int, ...]:
    """The tokens of a prompt, with BOS in front of them if the model wants it.

    Raises:
        RequestError: the text has a lone surrogate.
    """
    try:
        parts = [
            vocabulary.encode_special(piece, inside=number > 0)
            for number, piece in enumerate(prompt.pieces)
        ]
    except UnicodeEncodeError as e:
        hint = "Replace it in the messages or tools"
        raise RequestError("the prompt has a lone surrogate", hint=hint) from e
    tokens = [token for part in parts for token in part]
    bos = vocabulary.bos
    if bos is not None and tokens[:1] != [bos]:  # most templates write it themselves
        tokens.insert(0, bos)
    return tuple(tokens)


def _teach(template: ChatTemplate, chosen: Format | None) -> Teaching:
    return find_teaching(template) if chosen is None else choose_teaching(template, chosen)


def _forbid(think: Think) -> Think:
    if think is Think.REQUIRED:
        hint = "Leave thinking optional, or raise the budget"
        message = "thinking is required, but its budget is 0"
        raise RequestError(message, where="/reasoning_budget", hint=hint)
    return Think.FORBIDDEN


class Compiler:
    """Compiles jobs for one vocabulary and chat template; keeps compiled grammars.

    Args:
        vocabulary: that of the model.
        template: its chat template.
        tool_template: what is used in its place where tools are offered.
        tool_format: the format of calls, in place of the one that the template teaches.

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
    ):
        self.vocabulary = vocabulary
        self._taught = _teach(tool_template or template, tool_format)
        self._plain = self._taught if tool_template is None else find_teaching(template)
        self.template, self.format = self._taught.template, self._taught.format
        self.notices = tuple(n for n in [self._taught.notice] if n)
        self._compile = lru_cache(maxsize=CACHED)(self._compile_grammar)

    @cached_property
    def markers(self) -> dict[str, int]:
        """Tokens that stand for parts of what the formats write, by their names."""
        return self.vocabulary.find_markers(self._taught.format.texts + self._plain.format.texts)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What grammars are compiled against; built once."""
        return build_tokenizer(self.vocabulary, self.markers)

    def compile(self, job: Job) -> CompiledTurn:
        """Renders the prompt, then builds the grammar that starts where it ends.

        Raises:
            ToolError, SchemaError, PolicyError: the tools, the choice or the answer cannot be used.
            TemplateError: the template refuses the messages.
            GrammarError: llguidance refuses the grammar; names the tool that is to blame.
        """
        check_job(job)
        tools = read_tools(job.tools)
        policy = read_policy(job.tool_choice, parallel=job.parallel, think=Think(job.think))
        policy = replace(policy, answer=job.answer)
        policy.select(tools)
        teaching = self._taught if tools else self._plain
        format, markers = teaching.format, self.markers
        prompt = self._render(job, teaching, opened=True)
        plain = self._render(job, teaching, opened=False).text
        state = find_state(prompt.text, plain, format, count_calls(job.messages))
        budget = self._budget(job, format)
        if budget is not None and budget.tokens == 0:
            policy = replace(policy, think=_forbid(policy.think))
        grammar = matcher = None
        thinks = policy.think is not Think.OPTIONAL or budget is not None
        if tools or thinks or policy.answer or policy.choice is Choice.REQUIRED:
            grammar = build_grammar(format, tools, policy, state, markers)
            matcher = self._matcher(grammar, tools, policy, state)
        return CompiledTurn(
            prompt,
            encode_prompt(prompt, self.vocabulary),
            format,
            state,
            tools,
            policy,
            grammar,
            matcher,
            budget,
            self.vocabulary,
            markers,
            job.thinking_tags,
            read_call_ids(job.messages),
        )

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

    def _render(self, job: Job, teaching: Teaching, *, opened: bool) -> Prompt:
        block = teaching.format.reasoning
        keep = [block.opener.text, block.closer.text] if block else []
        return render_prompt(
            teaching.template,
            job.messages,
            as_openai(job.tools) or None,
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

    def _matcher(
        self, grammar: str, tools: Sequence[Tool], policy: Policy, state: State
    ) -> Matcher:
        try:
            return self._compile(grammar).fork()
        except GrammarError as e:
            if isinstance(policy.answer, GrammarAnswer):
                self._check_answer(policy.answer)
            for i, tool in enumerate(tools):
                self._blame(i, tool, state)
            raise e

    def _check_answer(self, answer: GrammarAnswer) -> None:
        try:
            self._compile_grammar(answer.lark)
        except GrammarError as e:
            raise GrammarError(f"the grammar of the answer: {e.message}", where="/grammar") from e

    def _blame(self, number: int, tool: Tool, state: State) -> None:
        """Raises if this tool's schema is what llguidance refuses."""
        alone = build_grammar(self.format, [tool], Policy(), state, self.markers)
        try:
            self._compile_grammar(alone)
        except GrammarError as e:
            message = f"the schema of tool {tool.name!r} cannot be enforced: {e.message}"
            raise SchemaError(message, where=f"/tools/{number}", hint="Simplify it") from e

    def _compile_grammar(self, grammar: str) -> Matcher:
        return Matcher.compile(self.tokenizer, grammar)
