"""Checks the parsers of other projects with `constrained suite`.

    pip install --no-deps --target packages/vllm-0.33.0 vllm==0.33.0
    python -m benchmarks.field packages --out field.jsonl [--only vllm:hermes] [--part 1/2]

Each folder in `packages` is a project with its version, from which its parsers are imported; the
light packages that they need come from this environment. Results are appended to the file: a line
for each parser, and one for each finding. Parsers that are in it are left out, so a run can be
continued; parts of it can run side by side. `benchmarks.field.table` prints the tables.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.field.formats import MORE
from benchmarks.field.subjects import LLAMA, SUBJECTS, Subject
from constrained.errors import RequestError
from constrained.inspect.conformance.parser_check import check_parser
from constrained.inspect.conformance.rows import CorpusRow, read_corpus, read_packaged_rows
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS

LLAMA_PIPE = "benchmarks.field.llama_server"
TIMEOUT = 20  # seconds for an answer; far more than any parser takes
KEYS = ("project", "version", "parser", "format")
_ALL: Mapping[str, Format] = {format.name: format for format in (*FORMATS, *MORE)}


def find_packages(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Yields project, version and folder of each package."""
    for path in sorted(folder.iterdir()):
        project, _, version = path.name.rpartition("-")
        if path.is_dir() and project:
            yield project, version, path


def check(
    subject: Subject, version: str, packages: Path, *, rows: Sequence[CorpusRow], examples: int
) -> Iterator[dict[str, Any]]:
    """Yields the row of a parser, and a row for each finding."""
    values = (subject.project, version, subject.parser, subject.format)
    key = dict(zip(KEYS, values, strict=True))
    name = f"{subject.project}:{subject.parser}"
    module = LLAMA_PIPE if subject.project == LLAMA else "constrained.inspect.peers.pipe"
    pipe = [sys.executable, "-m", module, name, str(packages)]
    started = time.monotonic()
    try:
        report = check_parser(
            shlex.join(pipe), _ALL[subject.format], rows=rows, examples=examples, timeout=TIMEOUT
        )
    except RequestError as e:
        yield {**key, "error": str(e)}
        return
    seconds = round(time.monotonic() - started)
    claims = report.abilities.names
    yield {**key, "claims": claims, "findings": len(report.findings), "seconds": seconds}
    for finding in report.findings:
        found = finding.to_json()
        yield {**key, **found.pop("request"), **found}


def main() -> None:
    """Checks what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="PROJECT:PARSER, or the beginning of it")
    parser.add_argument("--part", default="1/1", help="2/3: the second of three parts")
    parser.add_argument("--examples", type=int, default=20)
    options = parser.parse_args()
    done: set[tuple[str, ...]] = set()
    if options.out.exists():
        for line in options.out.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            done.add(tuple(row[key] for key in KEYS))
    rows = list(read_corpus(read_packaged_rows()))
    part, _, parts = options.part.partition("/")
    for subject in SUBJECTS[int(part) - 1 :: int(parts)]:
        for project, version, path in find_packages(options.packages):
            key = (subject.project, version, subject.parser, subject.format)
            name = f"{subject.project}:{subject.parser}"
            if project != subject.project or key in done or not name.startswith(options.only):
                continue
            found = list(check(subject, version, path, rows=rows, examples=options.examples))
            with options.out.open("a", encoding="utf-8") as file:
                for row in found:
                    print(json.dumps(row, default=repr), file=file)
            print(name, version, found[0].get("error", f"{len(found) - 1} findings"), flush=True)


if __name__ == "__main__":
    main()
