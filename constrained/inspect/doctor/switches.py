"""Finds the variables of a chat template that a request can set (`chat_template_kwargs`), and what
each of them changes, by rendering; no names of variables are built in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import nodes

from constrained.errors import TemplateError
from constrained.inspect.doctor.conversations import SHAPES
from constrained.prompt.template.chat_template import RESERVED, ChatTemplate
from grammars.infer.reasoning import find_prompt, find_state
from grammars.turn import Start, State
from grammars.wire.format import Format

_GIVEN = frozenset(
    {*RESERVED, "raise_exception", "strftime_now", "documents", "functions", "datetime"}
)
_MAX_VALUES = 8
_TRIED = (True, False)
_WORDS = ("low", "high")
_LOOP = SHAPES[3]


@dataclass(frozen=True)
class Setting:
    """A template variable with a value that changes the prompt."""

    name: str
    value: Any
    prompt: str  # the generation prompt with this value
    start: Start  # the state in which the turn begins
    changes_prompt: bool  # the value changes the generation prompt
    changes_history: bool  # the value changes the text before the generation prompt

    @property
    def kwargs(self) -> dict[str, Any]:
        return {self.name: self.value}


@dataclass(frozen=True)
class Switches:
    """The effects of the variables of a template."""

    default: State  # the start state if no variable is set
    prompt: str  # the generation prompt then
    settings: tuple[Setting, ...]
    # variables that the template reads, but whose values changed nothing
    without_effect: tuple[str, ...]

    def modes(self) -> dict[str, dict[str, Any]]:
        """Returns the variables for reasoning at its default, on, and off."""
        return {"": {}, "on": self._find_mode(True), "off": self._find_mode(False)}

    def _find_mode(self, is_on: bool) -> dict[str, Any]:
        """Returns all booleans that change the generation prompt as wanted, or the first other
        value with the wanted start state."""
        found: dict[str, Any] = {}
        names = {setting.name for setting in self.settings if setting.changes_prompt}
        for setting in self.settings:
            if setting.name in names and isinstance(setting.value, bool):
                found[setting.name] = is_on
        if found:
            return found
        wanted = Start.OPEN if is_on else Start.CLOSED
        for setting in self.settings:
            if setting.start is wanted and setting.changes_prompt:
                return setting.kwargs
        return {}


def find_switches(template: ChatTemplate, format: Format) -> Switches:
    """Tries every variable that a template reads. The format determines the start state of a turn.

    Raises:
        TemplateError: the template fails on a question.
    """
    probe = _SwitchProbe(template, format)
    default = probe.render({})
    if default is None:
        raise TemplateError("the template fails on a question")
    settings: list[Setting] = []
    without_effect: list[str] = []
    for name in sorted(list_variables(template)):
        tried = [*_TRIED, *dict.fromkeys(_list_compared(template.tree, name))]
        found = list(probe.compare(name, tried[:_MAX_VALUES], default))
        if not found and not _is_list(template.tree, name):
            found = list(probe.compare(name, _WORDS, default))
        settings += found
        if not found:
            without_effect.append(name)
    return Switches(default.state, default.prompt, tuple(settings), tuple(without_effect))


def list_variables(template: ChatTemplate) -> frozenset[str]:
    """Returns the variables that a request can set: those that the template reads and does not set
    itself in a loop or a macro, unless it tests whether they are defined."""
    local: set[str] = set()
    for scope in template.tree.find_all((nodes.For, nodes.Macro)):
        for name in scope.find_all(nodes.Name):
            if name.ctx in ("store", "param"):
                local.add(name.name)
    top: set[str] = set()
    for statement in _list_top(template.tree.body):
        if isinstance(statement, nodes.Assign) and isinstance(statement.target, nodes.Name):
            top.add(statement.target.name)
    for test in template.tree.find_all((nodes.Test, nodes.Filter)):
        tests_existence = test.name in ("defined", "undefined", "default", "d")
        if tests_existence and isinstance(test.node, nodes.Name):
            top.add(test.node.name)
    return frozenset(template.variables - _GIVEN - (local - top))


def _list_top(body: list[nodes.Node]) -> Iterator[nodes.Node]:
    for node in body:
        yield node
        if isinstance(node, nodes.If):
            yield from _list_top([*node.body, *node.elif_, *node.else_])


@dataclass(frozen=True)
class _Rendered:
    """What a variable can change."""

    question: str  # the prompt of a question with tools, without the generation prompt
    history: str  # the prompt of a tool loop with reasoning, without the generation prompt
    prompt: str
    state: State


@dataclass(frozen=True)
class _SwitchProbe:
    template: ChatTemplate
    format: Format

    def compare(self, name: str, values: Sequence[Any], default: _Rendered) -> Iterator[Setting]:
        """Returns the values of a variable with an effect; values that the template refuses do not
        count."""
        for value in values:
            made = self.render({name: value})
            if made is None or made == default:
                continue
            changes_history = (made.question, made.history) != (default.question, default.history)
            yield Setting(
                name,
                value,
                made.prompt,
                made.state.start,
                changes_prompt=made.prompt != default.prompt,
                changes_history=changes_history,
            )

    def render(self, kwargs: Mapping[str, Any]) -> _Rendered | None:
        """Renders the prompts with these variables; None: the template fails on a question."""
        for shape in (_LOOP, _LOOP.without_system()):
            first = shape.turns[0]
            try:
                opened = self.template.render(shape.sent[:first], shape.tools, **kwargs)
                closed = self.template.render(
                    shape.sent[:first], shape.tools, add_generation_prompt=False, **kwargs
                )
            except TemplateError:
                continue
            try:
                history = self.template.render(shape.sent, shape.tools, **kwargs)
            except TemplateError:
                history = ""
            prompt = find_prompt(opened, closed)
            head, history = opened.removesuffix(prompt), history.removesuffix(prompt)
            return _Rendered(head, history, prompt, find_state(opened, closed, self.format))
        return None


def _list_compared(tree: nodes.Template, name: str) -> list[Any]:
    found: list[Any] = []
    for compare in tree.find_all(nodes.Compare):
        parts = [compare.expr, *(operand.expr for operand in compare.ops)]
        if any(_reads(part, name) for part in parts):
            for part in parts:
                found += _list_constants(part)
    return found


def _is_list(tree: nodes.Template, name: str) -> bool:
    """Returns whether the template iterates over the variable, or writes it as JSON: then it is not
    a word."""
    for loop in tree.find_all(nodes.For):
        if _reads(loop.iter, name):
            return True
    return any(
        written.name == "tojson" and written.node is not None and _reads(written.node, name)
        for written in tree.find_all(nodes.Filter)
    )


def _reads(part: nodes.Node, name: str) -> bool:
    for other in (part, *part.find_all(nodes.Name)):
        if isinstance(other, nodes.Name) and other.name == name:
            return True
    return False


def _list_constants(part: nodes.Node) -> list[Any]:
    found: list[Any] = []
    for node in (part, *part.find_all(nodes.Const)):
        if isinstance(node, nodes.Const) and type(node.value) in (str, int):
            found.append(node.value)
    return found
