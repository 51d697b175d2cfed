"""Runs an evaluation: asks each model, in each way, all questions that it may be asked."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from constrained.engine.gguf.contents import read_all_parts
from constrained.engine.gguf.weights import (
    count_weights,
    describe_types,
    find_false_claim,
    measure_bits,
)
from constrained.engine.options import CacheType, LoadOptions
from constrained.errors import RequestError
from constrained.inspect.chat_server import NAME_HINT, ChatServer
from constrained.inspect.evaluation.asking import AskedWay, Asker
from constrained.inspect.evaluation.judging import Judgement, judge, judge_episode
from constrained.inspect.evaluation.kept_answers import KeptAnswers
from constrained.inspect.evaluation.report import Evaluation
from constrained.inspect.evaluation.rows import (
    SAMPLE,
    Question,
    QuestionKind,
    choose,
    read_questions,
)
from constrained.inspect.evaluation.ways import (
    Askers,
    AskOptions,
    make_server_askers,
    open_file,
)
from constrained.inspect.evaluation.world import Episode, draw_episodes, run_episode
from constrained.model_files.local_models import name_file
from constrained.model_files.sources import find_source

COUNT = 10
KINDS = tuple(QuestionKind)
Progress = Callable[[float, float], None]
"""Takes the number of questions that are answered, and of all."""


@dataclass(frozen=True)
class EvaluationPlan:
    """Who is asked what."""

    files: Sequence[Path]
    cache_types: Sequence[CacheType | None]  # of the KV cache; None: as `load_options` say
    # with Chat Completions, each with the name of its model
    servers: Sequence[tuple[ChatServer, str]]
    questions: Sequence[Question | Episode]
    notes: Sequence[str]  # on rows that are left out
    ask: AskOptions  # what holds for every answer
    load_options: LoadOptions = field(default_factory=LoadOptions)  # of `load`, for the files
    load_further: dict[str, Any] = field(default_factory=dict[str, Any])  # further arguments of it

    def list_files(self) -> Iterator[tuple[Path, CacheType | None, str]]:
        """Yields each file with each type of KV cache, and what the table calls the two."""
        files = {path: name_file(path) for path in self.files}
        counts = Counter(files.values())
        for path, known in files.items():
            name = known if counts[known] == 1 else str(path)
            for cache_type in dict.fromkeys(self.cache_types):
                yield path, cache_type, name if cache_type is None else f"{name} {cache_type}"

    def report(self, judgements: Sequence[Judgement], kept: KeptAnswers) -> Evaluation:
        about = {name: describe_file(path) for path, _, name in self.list_files()}
        notes = (*self.notes, *kept.notes)
        return Evaluation(tuple(judgements), about, notes, self.ask.seed)

    def describe_options(self) -> dict[str, Any]:
        """Returns what changes answers beside model and question."""
        ask = self.ask
        given = {**self.load_further, "parallel": None if ask.parallel else False}
        return {
            "max_tokens": ask.max_tokens,
            "temperature": ask.temperature,
            "seed": ask.seed if ask.temperature else 0,
            "think": ask.think,
            "template_kwargs": dict(ask.template_kwargs),
            **{name: str(value) for name, value in given.items() if value is not None},
        }


def evaluate(
    models: Sequence[str | PathLike[str]] = (),
    *,
    against: Sequence[str] = (),
    rows: Sequence[str | PathLike[str]] = (SAMPLE,),
    kinds: Sequence[str] = KINDS,
    count: int = COUNT,
    cache_types: Sequence[CacheType | None] = (None,),
    ask: AskOptions | None = None,
    answers: str | PathLike[str] | None = None,
    api_key: str = "",
    **load_options: Unpack[LoadOptions],
) -> Evaluation:
    """Asks models the same questions, without and with the mask, and judges what they answer.

    Args:
        models: GGUF files, or other models that `load` takes.
        against: URLs of servers with Chat Completions that serve one model.
        rows: files with questions; see `constrained.inspect.evaluation.rows`. Default: a sample of
            BFCL.
        kinds: which questions.
        count: of each kind.
        cache_types: of the KV cache; each file is asked with each of them. None: as
            `load_options` say.
        ask: in which ways, and what holds for every answer.
        answers: a file that keeps the answers. What it has is not asked again.
        api_key: of the servers.
        load_options: the fields of `EngineOptions`.

    Raises:
        Error: a model cannot be loaded, a server cannot be reached, a row is wrong, or the answers
            are of a run with other options.
    """
    ask = ask or AskOptions()
    found = read_questions(rows)
    plan = EvaluationPlan(
        files=[find_source(model, token=None, offline=False, progress=None) for model in models],
        cache_types=cache_types,
        servers=[connect(url, api_key) for url in dict.fromkeys(against)],
        questions=draw(found.all, map(QuestionKind, kinds), count, ask.seed),
        notes=found.notes,
        ask=ask,
        load_options=load_options,
    )
    with KeptAnswers(answers, plan.describe_options()) as kept:
        judgements = list(measure(plan, kept))
    return plan.report(judgements, kept)


def draw(
    questions: Iterable[Question], kinds: Iterable[QuestionKind], count: int, seed: int
) -> list[Question | Episode]:
    """Draws so many questions of each kind, and so many agent tasks, always the same ones for a
    seed; a RequestError if there are none."""
    wanted = list(kinds)
    tasks = draw_episodes(count, seed) if QuestionKind.AGENT in wanted else []
    drawn = [*choose(questions, wanted, count, seed), *tasks]
    if not drawn:
        hint = "Rows need `gold` and tools; `agent` needs no rows"
        raise RequestError(f"there are no questions of the kind {', '.join(wanted)}", hint=hint)
    return drawn


def describe_file(path: Path) -> list[str]:
    """Says how many bits a weight of a model file has, of which types, and what is false about its
    name."""
    contents = read_all_parts(path)
    types = describe_types(count_weights(contents.tensors))
    bits = measure_bits(contents.tensors)
    lines = [types if bits is None else f"{bits:.2f} bits per weight: {types}"]
    claim = find_false_claim(contents, name_file(path))
    if claim is not None:
        lines.append(f"warning: {claim}. {claim.reason}")
    return lines


def connect(url: str, api_key: str = "", model: str = "") -> tuple[ChatServer, str]:
    """Returns a server and the name of its model: the first one that it lists, if none is given; a
    RequestError if it cannot be reached, or lists none."""
    server = ChatServer(url, api_key)
    if model:
        return server, model
    names = server.list_models()
    if not names:
        raise RequestError(f"{url} has no model", hint=NAME_HINT)
    return server, names[0]


def measure(
    plan: EvaluationPlan, kept: KeptAnswers, progress: Progress | None = None
) -> Iterator[Judgement]:
    """Asks each model what the plan says; yields each judgement as soon as there is an answer.

    All ways of a model answer a question before the next one, in an order that changes, so that a
    slow minute of the machine affects all.
    """
    subjects = _list_subjects(plan, kept)
    for number, subject in enumerate(subjects):
        with subject() as askers:
            ways = list(askers)
            for index, question in enumerate(plan.questions):
                first = index % len(ways)
                for way in (*ways[first:], *ways[:first]):
                    judgement = _ask(way, askers[way], question)
                    if judgement is not None:
                        yield judgement
                if progress is not None:
                    done = number * len(plan.questions) + index + 1
                    progress(done, len(subjects) * len(plan.questions))


def _ask(way: AskedWay, ask: Asker, question: Question | Episode) -> Judgement | None:
    """Returns what comes of a question or a task; None: it is not asked in this way."""
    match question:
        case Episode():
            return judge_episode(way, question, run_episode(question, ask))
        case Question(messages=messages, tools=tools, right=right):
            if not right and not way.may_decline:
                return None
            return judge(way, question, ask(messages, tools))


def _list_subjects(
    plan: EvaluationPlan, kept: KeptAnswers
) -> list[Callable[[], AbstractContextManager[Askers]]]:
    subjects: list[Callable[[], AbstractContextManager[Askers]]] = []
    for path, cache_type, name in plan.list_files():
        open_model = partial(
            open_file,
            path,
            cache_type,
            kept,
            plan.ask,
            subject=name,
            load_options=plan.load_options,
            **plan.load_further,
        )
        subjects.append(open_model)
    for server, model in plan.servers:
        askers = make_server_askers(server, model, kept, plan.ask, subject=server.base)
        subjects.append(partial(nullcontext, askers))
    return subjects
