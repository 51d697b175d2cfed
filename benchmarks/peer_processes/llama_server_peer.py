# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""The peer llama-server for `benchmarks.real` and `benchmarks.side_by_side`, in a virtual
environment of its own: the package xllamacpp has llama.cpp's server. It prints where it listens,
and ends with what it reads.

python -m benchmarks.peer_processes.llama_server_peer MODEL.gguf THREADS CONTEXT \
    [TEMPLATE.jinja [SEQUENCES]]
"""

import json
import sys
from pathlib import Path

import xllamacpp


def main(path: str, threads: str, context: str, template: str = "", sequences: str = "") -> None:
    """Serves as `llama-server --jinja` does, with stock settings."""
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
