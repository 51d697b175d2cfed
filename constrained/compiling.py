"""A request and a model's facts -> a compiled turn: prompt tokens, matcher, parser."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from constrained.errors import GrammarError, RequestError
from constrained.mask import Matcher
from constrained.quoting import Prompt, render_prompt
from constrained.template import ChatTemplate
from constrained.tools import as_openai, read_policy, read_tools
from constrained.vocabulary import Tokenizer, Vocabulary, build_tokenizer
from grammars.detect import detect, find_state
from grammars.errors import DetectError, SchemaError
from grammars.lark import build_grammar
from grammars.parse import Parser
from grammars.turn import Choice, Policy, State, Think, Tool
from grammars.wire import Format

CACHED = 32  # compiled grammars; one of 100 tools is about 1 MB


@dataclass(frozen=True)
class Job:
    """What is asked of a model.

    Args:
        messages: the conversation, in OpenAI form.
        tools: OpenAI, Anthropic or MCP shapes.
        tool_choice: a form that `read_policy` reads.
        parallel: whether one turn may hold several calls.
        think: whether the turn reasons first.
        template_kwargs: handed to the chat template as they are.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: Any = None
    parallel: bool = True
    think: Think = Think.OPTIONAL
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class CompiledTurn:
    """All that generation needs to know of a job."""

    prompt: Prompt
    tokens: tuple[int, ...]
    format: Format
    state: State
    tools: tuple[Tool, ...]
    grammar: str | None
    matcher: Matcher | None

    def parser(self) -> Parser:
        """A new parser for the text of this turn."""
        return Parser(self.format, self.tools, self.state, calls=bool(self.tools))


def detect_format(template: ChatTemplate) -> Format:
    """The wire format that a template teaches.

    Raises:
        TemplateError: the template fails on a plain message.
        DetectError: it writes calls in a format that is not known.
    """
    try:
        return detect(template.render)
    except DetectError:
        template.render([{"role": "user", "content": "Hello"}])  # says why, if it always fails
        raise


def _check_job(job: Job) -> None:
    """Refuses values of the wrong type, which would otherwise count as the default."""
    if job.think not in list(Think):
        hint = f"Use {', '.join(Think)}"
        raise RequestError(f"think is {job.think!r}", where="/think", hint=hint)
    if not isinstance(job.parallel, bool):
        raise RequestError(f"parallel is {job.parallel!r}, not a boolean", where="/parallel")
    if not isinstance(job.template_kwargs, Mapping):
        raise RequestError("template_kwargs are not an object", where="/chat_template_kwargs")


class Compiler:
    """Compiles jobs for one vocabulary and chat template; keeps compiled grammars.

    Raises:
        DetectError: the template writes calls in a format that is not known.
        TemplateError: the template is broken.
    """

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate):
        self.vocabulary = vocabulary
        self.template = template
        self.format = detect_format(template)
        self.markers = {
            text: token
            for text in self.format.markers
            if (token := vocabulary.marker(text)) is not None
        }
        self._compile = lru_cache(maxsize=CACHED)(self._compile_grammar)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What grammars are compiled against; built once."""
        return build_tokenizer(self.vocabulary, self.format.markers)

    def compile(self, job: Job) -> CompiledTurn:
        """Renders the prompt, then builds the grammar that starts where it ends.

        Raises:
            ToolError, SchemaError, PolicyError: the tools or the choice cannot be used.
            TemplateError: the template refuses the messages.
            GrammarError: llguidance refuses the grammar; names the tool that is to blame.
        """
        _check_job(job)
        tools = read_tools(job.tools)
        policy = read_policy(job.tool_choice, parallel=job.parallel, think=Think(job.think))
        policy.select(tools)
        prompt = self._render(job, opened=True)
        state = find_state(prompt.text, self._render(job, opened=False).text, self.format)
        grammar = matcher = None
        if tools or policy.choice is Choice.REQUIRED or policy.think is not Think.OPTIONAL:
            grammar = build_grammar(self.format, tools, policy, state, self.markers)
            matcher = self._matcher(grammar, tools, policy, state)
        return CompiledTurn(
            prompt, self._encode(prompt), self.format, state, tools, grammar, matcher
        )

    def forget(self) -> None:
        """Drops the compiled grammars: one that failed has spoilt what its forks share."""
        self._compile.cache_clear()

    def _render(self, job: Job, *, opened: bool) -> Prompt:
        block = self.format.reasoning
        keep = [block.opener.text, block.closer.text] if block else []
        return render_prompt(
            self.template,
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
        return frozenset(names | set(self.format.markers))

    def _encode(self, prompt: Prompt) -> tuple[int, ...]:
        try:
            parts = [
                self.vocabulary.encode_special(piece, inside=number > 0)
                for number, piece in enumerate(prompt.pieces)
            ]
        except UnicodeEncodeError as e:
            hint = "Replace it in the messages or tools"
            raise RequestError("the prompt has a lone surrogate", hint=hint) from e
        tokens = [token for part in parts for token in part]
        bos = self.vocabulary.bos
        if bos is not None and tokens[:1] != [bos]:  # most templates write it themselves
            tokens.insert(0, bos)
        return tuple(tokens)

    def _matcher(
        self, grammar: str, tools: Sequence[Tool], policy: Policy, state: State
    ) -> Matcher:
        try:
            return self._compile(grammar).fork()
        except GrammarError as e:
            for i, tool in enumerate(tools):
                self._blame(i, tool, state)
            raise e

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
