"""The code of traced templates, see `tracing`: calls of a recorder in their syntax trees.

Imported by the process in which templates run, so it imports little.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, nodes
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

from constrained.prompt.template.environment import make_environment

Passes = tuple[int, ...]
"""The pass numbers of the current loops, the outermost first."""
_JSON = (str, int, float, bool, list, dict, type(None))


@dataclass(frozen=True, eq=False)
class Site:
    """A place of a template: a condition, a loop, an assignment, or an output.

    Args:
        node: in the syntax tree.
        tags: the source of the tags; for a condition, one for each of its tests.
        line: of the first tag.
        conditions: those around it in its macro, with the branch that leads here.
        loops: those around it in its macro.
        names: the variables that are set here.
    """

    node: nodes.Node
    tags: tuple[str, ...]
    line: int
    conditions: tuple[tuple[int, int], ...]
    loops: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def tests(self) -> tuple[nodes.Node, ...]:
        """The tests of a condition, in order; branch i is taken if test i is the first true one,
        the last branch if none is true."""
        match self.node:
            case nodes.If():
                return (self.node.test, *(other.test for other in self.node.elif_))
            case nodes.CondExpr():
                return (self.node.test,)
            case _:
                return ()


@dataclass(frozen=True)
class Event:
    """An event of a render at a site.

    Args:
        site: its number.
        passes: of the loops around it.
        begun, done: the number of events before its beginning and before its end.
    """

    site: int
    passes: Passes
    begun: int
    done: int


@dataclass(frozen=True)
class Chosen(Event):
    """A condition took a branch."""

    branch: int


@dataclass(frozen=True)
class Assigned(Event):
    """A variable was set to a value, which is recorded as text."""

    value: str


@dataclass(frozen=True)
class WrittenPiece(Event):
    """A piece of the prompt, given by two offsets."""

    start: int
    end: int


@dataclass
class _Recorder:
    """Records the events of a render. Templates call it by names that they cannot write
    themselves."""

    clock: int = 0
    passes: list[int] = field(default_factory=list[int])
    begun: list[int] = field(default_factory=list[int])
    depth: int = 0
    writer: tuple[int, Passes, int] = (0, (), 0)
    pieces: list[WrittenPiece] = field(default_factory=list[WrittenPiece])
    choices: list[Chosen] = field(default_factory=list[Chosen])
    assignments: dict[str, list[Assigned]] = field(
        default_factory=lambda: defaultdict[str, list[Assigned]](list)
    )

    def start(self) -> bool:
        """Begins a render, and drops the record of an earlier render that failed."""
        self.__init__()
        return True

    def enter_loop(self) -> bool:
        self.passes.append(-1)
        return True

    def go_on(self) -> bool:
        self.passes[-1] += 1
        return True

    def leave_loop(self) -> bool:
        self.passes.pop()
        return True

    def enter_text(self) -> bool:
        """Notes that the following text goes into a value, not into the prompt."""
        self.depth += 1
        return True

    def leave_text(self) -> bool:
        self.depth -= 1
        return True

    def choose(self, site: int, branch: int) -> bool:
        time = self._tick()
        self.choices.append(Chosen(site, tuple(self.passes), time, time, branch))
        return True

    def begin(self) -> bool:
        self.begun.append(self._tick())
        return True

    def assign(self, site: int, *named: Any) -> str:
        """Records that variables were set; `named` has names and values in turn."""
        begun, done = self.begun.pop(), self._tick()
        for name, value in zip(named[::2], named[1::2], strict=True):
            shown = type(value).__name__
            if isinstance(value, _JSON):
                shown = repr(value)
            event = Assigned(site, tuple(self.passes), begun, done, shown)
            self.assignments[name].append(event)
        return ""

    def write(self, site: int) -> bool:
        """This site writes next."""
        time = self._tick()
        if self.depth == 0:
            self.writer = (site, tuple(self.passes), time)
        return True

    def note_piece(self, text: str) -> None:
        """Records a piece of the prompt."""
        start = self.pieces[-1].end if self.pieces else 0
        site, passes, begun = self.writer
        event = WrittenPiece(site, passes, begun, self._tick(), start, start + len(text))
        self.pieces.append(event)

    def _tick(self) -> int:
        self.clock += 1
        return self.clock

    def to_json(self) -> dict[str, Any]:
        """Returns the record; see `read_record`."""
        return {
            "pieces": [[*vars(event).values()] for event in self.pieces],
            "choices": [[*vars(event).values()] for event in self.choices],
            "assignments": {
                name: [[*vars(event).values()] for event in events]
                for name, events in self.assignments.items()
            },
        }


class _TracingEnvironment(SandboxedEnvironment):
    """The sandbox, with a recorder."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.recorder = _Recorder()
        join = self.concat

        def join_recorded(pieces: Iterable[str]) -> str:
            if not isinstance(pieces, Iterator):  # the text of a macro is a list
                return join(pieces)
            return join(self._record(pieces))

        self.concat = join_recorded

    def _record(self, pieces: Iterator[str]) -> Iterator[str]:
        for piece in pieces:
            self.recorder.note_piece(piece)
            yield piece


class TracedCode:
    """A traced template.

    Args:
        source: its text. Its errors are those of jinja2.
    """

    def __init__(self, source: str):
        environment = make_environment(_TracingEnvironment)
        instrument = _instrument(environment, source)
        code = environment.compile(instrument.tree)
        self._template = environment.template_class.from_code(
            environment, code, environment.make_globals(None)
        )
        self._recorder = environment.recorder

    def render(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Returns `{text, record}`."""
        text = self._template.render(variables)
        return {"text": text, "record": self._recorder.to_json()}


def list_sites(source: str) -> tuple[Site, ...]:
    """Lists the sites of a template, as its record numbers them."""
    return tuple(_instrument(make_environment(), source).sites)


def _instrument(environment: Environment, source: str) -> "_Instrument":
    instrument = _Instrument(_Tags.read(environment, source))
    instrument.tree = instrument.visit(environment.parse(source))
    return instrument


@dataclass(frozen=True)
class _Tags:
    """The source of the remaining tags of a template, in order, by keyword; outputs of values under
    ""."""

    found: Mapping[str, deque[tuple[str, int]]]

    @staticmethod
    def read(environment: Environment, source: str) -> "_Tags":
        found = defaultdict[str, deque[tuple[str, int]]](deque)
        parts: list[str] = []
        keyword, line = "", 0
        for number, kind, text in environment.lex(source):
            match kind:
                case "block_begin" | "variable_begin":
                    parts, keyword, line = [text.strip()], "", number
                case "block_end" | "variable_end":
                    found[keyword].append(("".join([*parts, text.strip()]), line))
                case _:
                    if kind == "name" and not keyword and parts[:1] and parts[0][:2] == "{%":
                        keyword = text
                    parts.append(text)
        return _Tags(found)

    def take(self, keyword: str, node: nodes.Node) -> tuple[str, int]:
        """Returns the next tag of this keyword, and its line."""
        if self.found[keyword]:
            return self.found[keyword].popleft()
        return "", node.lineno


class _Instrument(NodeTransformer):
    """Adds calls of the recorder to a syntax tree, and lists their sites."""

    def __init__(self, tags: _Tags):
        self.sites: list[Site] = []
        self.tree = nodes.Template([])
        self._tags = tags
        self._tag: tuple[str, int] = ("", 0)  # the current one, for the nodes inside it
        self._conditions: tuple[tuple[int, int], ...] = ()
        self._loops: tuple[int, ...] = ()

    def visit_Template(self, node: nodes.Template) -> nodes.Node:
        node.body = [_record_event("start()", node), *self._visit_all(node.body)]
        return node

    def visit_If(self, node: nodes.If) -> nodes.Node:
        number = self._add(node, self._tags.take("if", node))
        node.test = self.visit(node.test)
        node.body = self._visit_branch(node, node.body, number, branch=0)
        tags = [self._tag_of(number)]
        for i, other in enumerate(node.elif_, 1):
            self._tag = self._tags.take("elif", other)
            tags.append(self._tag[0])
            other.test = self.visit(other.test)
            other.body = self._visit_branch(node, other.body, number, branch=i)
        node.else_ = self._visit_branch(node, node.else_, number, branch=len(tags))
        self._set_tags(number, tags)
        return node

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:
        number = self._add(node, self._tag)
        self.generic_visit(node)
        if node.expr2 is not None:
            node.expr2 = nodes.And(_call(f"choose({number}, 1)", node), node.expr2)
        node.expr1 = nodes.And(_call(f"choose({number}, 0)", node), node.expr1)
        return node

    def visit_For(self, node: nodes.For) -> Any:
        number = self._add(node, self._tags.take("for", node))
        node.iter = self.visit(node.iter)
        if node.test is not None:
            node.test = self.visit(node.test)
        outside = self._loops
        if not node.recursive:  # recursion has passes that cannot be distinguished
            self._loops = (*outside, number)
        node.body = self._visit_all(node.body)
        self._loops = outside
        node.else_ = self._visit_all(node.else_)
        if node.recursive:
            return node
        node.body.insert(0, _record_event("go_on()", node))
        return [_record_event("enter_loop()", node), node, _record_event("leave_loop()", node)]

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        self._tag = self._tags.take("macro", node)
        return self._visit_text(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        self._tag = self._tags.take("call", node)
        node.call = self.visit(node.call)
        return self._visit_text(node)

    def visit_Assign(self, node: nodes.Assign) -> Any:
        number = self._add(node, self._tags.take("set", node), _list_names(node.target))
        node.node = self.visit(node.node)
        return [_record_event("begin()", node), node, self._record_assigned(node, number)]

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> Any:
        number = self._add(node, self._tags.take("set", node), _list_names(node.target))
        body = self._visit_all(node.body)
        node.body = [
            _record_event("enter_text()", node),
            *body,
            _record_event("leave_text()", node),
        ]
        return [_record_event("begin()", node), node, self._record_assigned(node, number)]

    def visit_Output(self, node: nodes.Output) -> Any:
        statements: list[nodes.Node] = []
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                number = self._add(part, ("", part.lineno))
            else:
                number = self._add(part, self._tags.take("", part))
                part = self.visit(part)
            statements.append(_record_event(f"write({number})", part))
            statements.append(nodes.Output([part], lineno=part.lineno))
        return statements

    def _visit_all(self, body: Iterable[nodes.Node]) -> list[nodes.Node]:
        visited: list[nodes.Node] = []
        for node in body:
            visited += self.visit_list(node)
        return visited

    def _visit_branch(
        self, node: nodes.If, body: list[nodes.Node], number: int, *, branch: int
    ) -> list[nodes.Node]:
        outside = self._conditions
        self._conditions = (*outside, (number, branch))
        visited = self._visit_all(body)
        self._conditions = outside
        return [_record_event(f"choose({number}, {branch})", node), *visited]

    def _visit_text(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:
        outside = self._conditions, self._loops
        self._conditions, self._loops = (), ()
        body = self._visit_all(node.body)
        self._conditions, self._loops = outside
        node.body = [
            _record_event("enter_text()", node),
            *body,
            _record_event("leave_text()", node),
        ]
        return node

    def _add(self, node: nodes.Node, tag: tuple[str, int], names: tuple[str, ...] = ()) -> int:
        self._tag = tag
        text, line = tag
        site = Site(node, (text,), line, self._conditions, self._loops, names)
        self.sites.append(site)
        return len(self.sites) - 1

    def _tag_of(self, number: int) -> str:
        return self.sites[number].tags[0]

    def _set_tags(self, number: int, tags: Sequence[str]) -> None:
        old = self.sites[number]
        site = Site(old.node, tuple(tags), old.line, old.conditions, old.loops)
        self.sites[number] = site

    def _record_assigned(self, node: nodes.Assign | nodes.AssignBlock, number: int) -> nodes.Node:
        line = node.lineno
        arguments: list[nodes.Expr] = [nodes.Const(number, lineno=line)]
        for name in _list_names(node.target):
            owner, _, attribute = name.partition(".")
            value: nodes.Expr = nodes.Name(owner, "load", lineno=line)
            if attribute:
                value = nodes.Getattr(value, attribute, "load", lineno=line)
            arguments += [nodes.Const(name, lineno=line), value]
        assign = nodes.EnvironmentAttribute("recorder.assign", lineno=line)
        call = nodes.Call(assign, arguments, [], None, None, lineno=line)
        return nodes.ExprStmt(call, lineno=line)


def _list_names(target: nodes.Node) -> tuple[str, ...]:
    """Lists the names that an assignment sets; an attribute of a namespace by both names."""
    match target:
        case nodes.NSRef():
            return (f"{target.name}.{target.attr}",)
        case nodes.Name():
            return (target.name,)
        case nodes.Tuple():
            return tuple(name for item in target.items for name in _list_names(item))
        case _:
            return ()


def _call(what: str, node: nodes.Node) -> nodes.Expr:
    """Makes an expression that calls the recorder, and is true. jinja2 forbids custom nodes, but
    writes the name of this one into the code unchanged."""
    return nodes.EnvironmentAttribute(f"recorder.{what}", lineno=node.lineno)


def _record_event(what: str, node: nodes.Node) -> nodes.Stmt:
    return nodes.ExprStmt(_call(what, node), lineno=node.lineno)
