"""`constrained bench`: measures the speed of a model on this machine."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from constrained.cli import options as shared
from constrained.cli import request
from constrained.cli.declared import complete
from constrained.cli.terminal.output import print_json, print_notes, print_table
from constrained.engine.options import read_options
from constrained.errors import RequestError

if TYPE_CHECKING:
    from constrained.agent.model import Model
    from constrained.inspect.speed import Figure

SEQUENCES = 4  # as many as `serve` has
PROMPT, GENERATED, REPETITIONS, SECONDS = 512, 128, 3, 30.0


def add(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.set_defaults(run=_run)
    parser.add_argument("--json", action="store_true", help="print JSON, with all samples")
    help = f"maximum tokens of the prompt test; default: {PROMPT} (pp{PROMPT})"
    parser.add_argument("-p", "--n-prompt", type=int, default=PROMPT, metavar="N", help=help)
    help = f"maximum tokens of the generation test; default: {GENERATED} (tg{GENERATED})"
    parser.add_argument("-n", "--n-gen", type=int, default=GENERATED, metavar="N", help=help)
    help = f"maximum repetitions of each test; default: {REPETITIONS}"
    parser.add_argument(
        "-r", "--repetitions", type=int, default=REPETITIONS, metavar="N", help=help
    )
    help = f"time for all tests; they are made smaller to fit; default: {SECONDS:.0f}"
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="N", help=help)
    shared.add_model_options(parser)
    shared.add_tool_format(parser)
    shared.add_engine_options(parser, sequences=SEQUENCES)
    # As in llama-bench. The benefit of drafts depends on the text.
    parser.set_defaults(no_draft=True)


def _run(options: argparse.Namespace) -> int:
    _check(options)
    complete(options)
    shared.choose_sequences(options, SEQUENCES)
    read_options(shared.read_engine_options(options))
    options.model, options.hf_repo = shared.find_model(options), None
    from constrained.inspect.speed import LAST, Figure, SpeedOptions, measure_speed

    _say("loading the model")
    began = time.perf_counter()
    with request.load_model(options) as model:
        seconds = time.perf_counter() - began
        print_notes(model.notices)
        figures = [Figure("load", "s", (seconds,))]
        if model.engine.memory_bytes:
            detail = f"weights, and {model.engine.max_sequences} sequences"
            size = model.engine.memory_bytes / 1e9
            figures.append(Figure("memory", "GB", (size,), detail))
        speed = SpeedOptions(
            prompt=options.n_prompt,
            generated=options.n_gen,
            repetitions=options.repetitions,
            seconds=options.seconds,
        )
        _say("measuring")
        try:
            for figure in measure_speed(model, speed):
                figures.append(figure)
                _say(f"{figure.test}: {_write_value(figure)} {figure.unit}")
        except KeyboardInterrupt:
            _print(model, figures, options)  # the figures so far
            raise
        _print(model, figures, options)
        if figures[-1].test != LAST:
            print_notes(["the time was over before all tests had run: raise --seconds"])
    return 0


def _check(options: argparse.Namespace) -> None:
    for name in ("n_prompt", "n_gen", "repetitions", "seconds"):
        if not getattr(options, name) > 0:
            option = f"--{name.replace('_', '-')}"
            raise RequestError(f"{option} is {getattr(options, name)}, must be more than 0")


def _say(text: str) -> None:
    print(f"constrained: {text}", file=sys.stderr, flush=True)


def _print(model: "Model", figures: "list[Figure]", options: argparse.Namespace) -> None:
    if options.json:
        results = [vars(figure) for figure in figures]
        print_json({"model": repr(model), "results": results})
        return
    rows: list[dict[str, Any]] = []
    for figure in figures:
        row = {"test": figure.test, "value": _write_value(figure), "unit": figure.unit}
        rows.append({**row, "": figure.detail})
    print_table(rows, right=("value",))


def _write_value(figure: "Figure") -> str:
    """Writes a value with three significant digits."""
    if figure.value >= 100:
        return f"{figure.value:,.0f}"
    if figure.value >= 1:
        return f"{figure.value:.1f}"
    return f"{figure.value:.3f}"
