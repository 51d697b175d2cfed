"""The header of a model that makes vectors of texts: its file says how the vectors of tokens become
one."""

from contextlib import closing
from pathlib import Path

import gguf


def write_embedding_model(path: Path, pooling: gguf.PoolingType) -> Path:
    """Writes the file, which has no weights, and returns its path."""
    with closing(gguf.GGUFWriter(path, arch="bert")) as writer:
        writer.add_pooling_type(pooling)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
    return path
