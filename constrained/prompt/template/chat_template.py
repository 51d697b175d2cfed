"""Chat templates: render a conversation to the text of a prompt, as transformers does. Which forms
of messages a template accepts is found by rendering probes."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from datetime import datetime
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

from jinja2 import nodes

from constrained.errors import AbandonedError, TemplateError
from constrained.prompt.messages import (
    MessageSpelling,
    copy_json,
    find_other_arguments,
    is_silent,
    is_text_parts,
    normalise,
    read_reasoning,
)
from constrained.prompt.template.arrival import FormFinder
from constrained.prompt.template.conversation_forms import FOR_REFUSALS, Forms, list_forms, write
from constrained.prompt.template.environment import (
    FAILURES,
    explain_failure,
    freeze,
    make_environment,
    read_now,
)
from constrained.prompt.template.rendering import Renderer, RenderingError, TemplateLimitError
from constrained.prompt.template.simplify import simplify_tools
from constrained.prompt.template.tool_places import PROBE_TOOL, ToolPlace, find_places
from grammars.limits.byte_cache import MIB, keep_results, measure_bytes

_PROBE_DATE = datetime(2026, 1, 1)
_PROBE = "PROBE-OF-A-TEXT"
_PROBE_USER: dict[str, Any] = {"role": "user", "content": _PROBE}
_PROBE_ARGUMENTS = {"probe_key": "probe value"}
_PROBE_CUT = '{"probe_key": "probe'
_EMPTY = nodes.Const("")
_REMOVING = ("replace", "split", "rsplit", "partition", "rpartition")
_WORDS_OF_NONE = ("None", "null", "none")
TEMPLATES = 16 * MIB  # for compiled templates
TEMPLATE_BYTES, CHARACTER_BYTES = 20_000, 200  # of a compiled template, at most
RESERVED = ("messages", "tools", "add_generation_prompt", "bos_token", "eos_token")


def _call_probe(arguments: Any) -> dict[str, Any]:
    function = {"name": "probe", "arguments": arguments}
    call = {"id": "abcdefgh1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def check_kwargs(kwargs: Mapping[str, Any]) -> None:
    """Refuse `chat_template_kwargs` of a client that set a name in RESERVED (TemplateError)."""
    if taken := [name for name in RESERVED if name in kwargs]:
        where = f"/chat_template_kwargs/{taken[0]}"
        raise TemplateError(f"chat_template_kwargs may not set {', '.join(taken)}", where=where)


class _Parsed(NamedTuple):
    tree: nodes.Template
    variables: frozenset[str]
    renderer: Renderer
    bytes: int


@keep_results("templates", TEMPLATES, lambda parsed: parsed.bytes)
def _parse(source: str) -> _Parsed:
    renderer = Renderer(source)
    # First: what takes too long to compile may also take too long to parse.
    variables = renderer.find_variables()
    tree = make_environment().parse(source)
    return _Parsed(tree, variables, renderer, TEMPLATE_BYTES + CHARACTER_BYTES * len(source))


class ChatTemplate:
    """A chat template. It runs in jinja2's sandbox, in a process with limits: see `rendering`."""

    def __init__(
        self, source: str, *, bos_token: str = "", eos_token: str = "", name: str = "chat template"
    ):
        self.source, self.name = source, name
        self.kwargs: Mapping[str, Any] = {}
        self.tokens = {"bos_token": bos_token, "eos_token": eos_token}
        with self.failures():
            parsed = _parse(source)
        self.tree, self.variables = parsed.tree, parsed.variables
        self._renderer, self._bytes = parsed.renderer, parsed.bytes
        self._finder: FormFinder | None = None
        self._tried: dict[tuple[tuple[str, bool | str], ...], str | None] = {}

    def measure(self) -> int:
        """Returns the estimated bytes; a template with values of its own shares the compiled
        one."""
        return TEMPLATE_BYTES + measure_bytes(self.kwargs) if self.kwargs else self._bytes

    def with_kwargs(self, kwargs: Mapping[str, Any]) -> "ChatTemplate":
        other = ChatTemplate(self.source, name=self.name, **self.tokens)
        other.kwargs = kwargs
        return other

    def without_kwargs(self) -> Self:
        other = copy(self)
        other.kwargs = {}
        for name in ("_part_forms", "_empty_contents", "_argument_forms", "_head"):
            vars(other).pop(name, None)
        return other

    def with_forms(self) -> Self:
        """Returns this template with other forms of messages that it would lose or move."""
        other = copy(self)
        other._finder = FormFinder(self._render_in_order)
        return other

    def without_forms(self) -> Self:
        """Returns this template as it is by itself; only what it refuses gets another form."""
        other = copy(self)
        other._finder = None
        return other

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        /,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """Renders the prompt of a conversation, which is not changed.

        Templates differ in the forms that they accept. Several forms are tried, in this order:

        - arguments of tool calls as objects, then as JSON text;
        - parts of text joined to one text, then as parts;
        - reasoning under all names that transformers uses, then under that of the client;
        - for an assistant message without content and calls, the content "", then a space;
        - tools as they are, then as `simplify_tools` writes them. None and [] both mean no tools.

        If it refuses a conversation, it gets an empty system message or one of the user; see also
        `with_forms`. If it reads no variable `tools`, they go where it writes them: into another
        variable, or a field of the system message.

        Raises:
            TemplateError: the template fails with every form (the error is that of the first one),
                or `normalise` or `check_kwargs` fails.
            TemplateLimitError: rendering takes more time or memory than is allowed.
        """
        return self._render(messages, tools, {**kwargs}, add_generation_prompt)

    def rewrite(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        return messages

    @cached_property
    def writes_text_arguments(self) -> bool:
        """Whether arguments that are no object, such as cut ones, are in the prompt: as a string,
        or as they are. Gemma 4 writes them within a second pair of braces."""
        messages = [_PROBE_USER, _call_probe(_PROBE_CUT)]
        try:
            # Nemotron-Nano-v2 leaves a last call out of a prompt that opens a turn.
            text = self.without_forms().render(messages, [PROBE_TOOL], add_generation_prompt=False)
        except TemplateError:
            return False
        return json.dumps(_PROBE_CUT) in text or (
            _PROBE_CUT in text and "{" + _PROBE_CUT not in text
        )

    @cached_property
    def removed_texts(self) -> frozenset[str]:
        """Texts that the template deletes, as Nemotron-Nano-v2 /think, or splits at."""
        removed: set[str] = set()
        for call in self.tree.find_all((nodes.Call, nodes.Filter)):
            match call:
                case nodes.Call(node=nodes.Getattr(attr=name), args=arguments):
                    pass
                case nodes.Filter(name=name, args=arguments):
                    pass
                case _:
                    continue
            match arguments:
                case [nodes.Const(value=str(text)), *rest] if name in _REMOVING:
                    # A single character counts only if it is deleted: where templates split lines
                    # or escape XML, the text stays.
                    if len(text) > 1 or _EMPTY in rest:
                        removed.add(text)
                case _:
                    pass
        return frozenset(removed)

    def check_arguments(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Refuses calls whose arguments are no object and that the template cannot write."""
        place = find_other_arguments(messages)
        if place is not None and not self.writes_text_arguments:
            message = f"the arguments of a call are not a JSON object, and {self.name} writes no"
            hint = "Send the arguments as an object, or leave the call and its result out"
            raise TemplateError(f"{message} others", where=place, hint=hint)

    def refuses(self, values: Mapping[str, bool | str]) -> bool:
        """Returns whether the template fails on any conversation with these values: Qwen3.8 refuses
        `enable_thinking=False`, and unknown efforts."""
        return self.try_values(values) is None and self.try_values({}) is not None

    def try_values(self, values: Mapping[str, bool | str]) -> str | None:
        """Returns the prompt of a question with these few values; None: it fails."""
        key = tuple(sorted(values.items()))
        kwargs: dict[str, Any] = {**values}
        if key not in self._tried:
            self._tried[key] = None
            with suppress(TemplateError), freeze(_PROBE_DATE):
                self._tried[key] = self.render([_PROBE_USER], **kwargs)
        return self._tried[key]

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        kwargs: Mapping[str, Any],
        add_generation_prompt: bool,
    ) -> str:
        check_kwargs(kwargs)
        with self.failures():
            normal = normalise(self.rewrite(messages))
        render = partial(self._render_in_order, tools=tools, kwargs=kwargs)
        if self._finder is None:
            return self._render_refused(normal, partial(render, opened=add_generation_prompt))
        forms = self._finder.find(normal, tools, kwargs)
        text = render(write(normal, forms), opened=add_generation_prompt)
        is_turn_of_model = add_generation_prompt and normal[-1]["role"] != "assistant"
        return self._finder.open_turn(text, kwargs) if is_turn_of_model else text

    def _render_refused(
        self, messages: list[dict[str, Any]], render: Callable[[list[dict[str, Any]]], str]
    ) -> str:
        try:
            return render(messages)
        except TemplateLimitError:  # another form would take as long
            raise
        except TemplateError as refusal:
            for _, written in list_forms(messages, FOR_REFUSALS):
                with suppress(TemplateError):
                    return render(written)
            raise refusal

    def _render_in_order(
        self,
        normal: list[dict[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None,
        kwargs: Mapping[str, Any],
        opened: bool,
    ) -> str:
        kwargs = {**kwargs, **self.kwargs}
        errors: list[TemplateError] = []
        for offer in self._offers(tools):
            for shown, spelling in self._list_spellings(normal, offer):
                given = {"tools": shown, "add_generation_prompt": opened}
                try:
                    with self.failures():
                        variables = copy_json({**self._extras(), **kwargs, **given})
                        written = spelling.write(normal)
                        if shown and (place := self._find_tool_place(kwargs)):
                            place.fill(shown, written, variables)
                        return self._renderer.render({**variables, "messages": written})
                except TemplateLimitError:  # another form would take as long
                    raise
                except TemplateError as error:
                    errors.append(error)
        raise errors[0]

    def _offers(self, tools: Sequence[Mapping[str, Any]] | None) -> Iterator[list[Any]]:
        if not tools:
            yield [None, []]  # the template of Hermes-2 loops over tools without a check
            return
        yield [tools]
        with suppress(*FAILURES):  # schemas that nest too deeply, or are not valid
            for simpler in simplify_tools(tools):
                yield [simpler]

    def _list_spellings(
        self, normal: list[dict[str, Any]], offer: list[Any]
    ) -> Iterator[tuple[Any, MessageSpelling]]:
        """Yields tools and spellings to try, the usual one first; the last fields vary first."""
        blank, named, empty = ("",), (False,), ("",)
        as_text, joined = (False,), (False,)
        if any(map(is_silent, normal)):
            # Ministral refuses a turn with neither content nor calls: one that was cut during
            # reasoning.
            blank = ("", " ")
        if any(read_reasoning(message) is not None for message in normal):
            # gpt-oss reads "thinking", but refuses it together with content and a call.
            named = (True, False)
        if any("tool_calls" in message for message in normal):
            # Most templates write arguments with tojson, some put them into the text as they are.
            # Command A reasoning reads the first part of the content, which has to exist.
            empty = (*self._empty_contents, " ")
            as_text = self._argument_forms
        if any(is_text_parts(message["content"]) for message in normal):
            joined = self._part_forms
        choices = itertools.product(blank, named, offer, empty, as_text, joined)
        for silence, is_named, tools, nothing, is_text, is_joined in choices:
            spelling = MessageSpelling(
                blank=silence, named=is_named, empty=nothing, as_text=is_text, joined=is_joined
            )
            yield tools, spelling

    @cached_property
    def _part_forms(self) -> tuple[bool, bool]:
        try:
            writes_text = _PROBE in self.without_forms().render([_PROBE_USER])
        except TemplateError:
            writes_text = True
        return writes_text, not writes_text

    @cached_property
    def _empty_contents(self) -> tuple[str | None, ...]:
        """The contents to try for a message that only calls tools. With None, OpenAI's form, 15 of
        70 templates fail or write it as a word. With "", the two of DeepSeek-R1-Distill are wrong.
        So None comes first if the template tests for it, unless it writes it as a word, which the
        model would copy before each call."""
        if not _tests_content_for_none(self.tree):
            return ("",)
        missing, blank = self._write_call(None), self._write_call("")
        is_word = any(missing.replace(word, "", 1) == blank != missing for word in _WORDS_OF_NONE)
        return ("", None) if is_word else (None, "")

    def _write_call(self, empty: str | None) -> str:
        """Renders a question and a call, in one form; "": the template fails."""
        messages = write(normalise([_PROBE_USER, _call_probe(_PROBE_ARGUMENTS)]), self._head)
        return self._write_one_form(messages, empty=empty)

    @cached_property
    def _head(self) -> Forms:
        if _PROBE in self._write_one_form([_PROBE_USER]):
            return ()
        for forms, written in list_forms([_PROBE_USER], FOR_REFUSALS):
            if _PROBE in self._write_one_form(written):
                return forms
        return ()

    @cached_property
    def _argument_forms(self) -> tuple[bool, bool]:
        """Whether to pass arguments as JSON text, in the order to try. Objects come first, unless
        the template writes them in Python's syntax, as that of Phi-4-mini does."""
        is_python = str(_PROBE_ARGUMENTS) in self._write_call(self._empty_contents[0])
        return is_python, not is_python

    def _write_one_form(self, messages: list[dict[str, Any]], *, empty: str | None = "") -> str:
        variables = {**self._extras(), **self.kwargs}
        variables |= {"tools": None, "add_generation_prompt": False}
        written = MessageSpelling(empty=empty).write(messages)
        try:
            with self.failures():
                return self._renderer.render({**variables, "messages": written})
        except TemplateError:
            return ""

    @cached_property
    def _tool_places(self) -> tuple[ToolPlace, ...]:
        if "tools" in self.variables:
            return ()
        return tuple(find_places(self.tree, self.variables, self._render_place))

    def _render_place(self, messages: list[dict[str, Any]], variables: dict[str, Any]) -> str:
        try:
            return self._render_in_order(messages, tools=None, kwargs=variables, opened=False)
        except TemplateError:
            return ""

    def _find_tool_place(self, kwargs: Mapping[str, Any]) -> ToolPlace | None:
        """Returns where to put the tools, unless the client gives them there itself; None:
        nowhere."""
        if any(isinstance(kwargs.get(place.name), list) for place in self._tool_places):
            return None
        for place in self._tool_places:
            if place.name not in kwargs:
                return place
        return None

    def _extras(self) -> dict[str, Any]:
        variables: dict[str, Any] = {"documents": None, **self.tokens}
        if {"functions", "datetime"} <= self.variables:
            # firefunction-v2 fails without them. llama.cpp adds the time of day, but then no prompt
            # could be cached.
            variables |= {"functions": "", "datetime": read_now().strftime("%b %d %Y")}
        return variables

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Converts exceptions of a template to a TemplateError with the line and a hint."""
        try:
            yield
        except RenderingError as error:
            text, line, hint = error.failure
            place = self.name if line is None else f"{self.name}, line {line}"
            raise TemplateError(f"{place}: {text}", hint=hint) from error
        except (TemplateError, AbandonedError):
            raise
        except FAILURES as error:
            text, _, hint = explain_failure(error)
            raise TemplateError(f"{self.name}: {text}", hint=hint) from error


def _tests_content_for_none(tree: nodes.Template) -> bool:
    for test in tree.find_all(nodes.Test):
        if test.name != "none":
            continue
        match test.node:
            case nodes.Getattr(attr="content") | nodes.Getitem(arg=nodes.Const(value="content")):
                return True
            case _:
                pass
    return False
