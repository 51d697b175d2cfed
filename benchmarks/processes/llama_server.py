"""llama.cpp's own server, as the package xllamacpp has it, as a process of its own.

    python -m benchmarks.processes.llama_server MODEL.gguf THREADS CONTEXT \
        [TEMPLATE.jinja [SEQUENCES]]

It prints where it listens, and ends with what it reads.
"""

import json
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGE = "xllamacpp>=2026.10"


def prepare(folder: Path) -> str:
    """Returns the Python of a virtual environment with the package; both are made if they are not
    there."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    # Where it is installed already, pip asks no index.
    subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
    return str(python)


@contextmanager
def start_llama_server(python: str, *arguments: str) -> Iterator[str]:
    """Where llama.cpp's server listens; it ends with the block.

    Args:
        python: of an environment with the package.
        arguments: those of this module.
    """
    command = [python, "-m", "benchmarks.processes.llama_server", *arguments]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            raise SystemExit("llama-server has ended")
        try:
            yield json.loads(line)["url"]
        finally:
            process.stdin.close()


def main(path: str, threads: str, context: str, template: str = "", sequences: str = "") -> None:
    """Serves as `llama-server --jinja` does, with stock settings."""
    import xllamacpp  # pyright: ignore[reportMissingImports]  only in that environment

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.cpuparams.n_threads = int(threads)
    params.cpuparams_batch.n_threads = int(threads)
    params.n_ctx = int(context)
    params.use_jinja = True
    if template:
        params.chat_template = Path(template).read_text(encoding="utf-8")
    if sequences:
        params.n_parallel = int(sequences)
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(json.dumps({"url": server.listening_address}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
