"""The options of `constrained serve` for the model that makes embeddings."""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Literal

from constrained.cli import options as shared
from constrained.cli.declared import add_option
from constrained.errors import RequestError
from server.settings import Settings

if TYPE_CHECKING:
    from server.models.embedding_service import EmbeddingService


def add_embedding_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the model for embeddings."""
    add = partial(add_option, parser, group="operate: embeddings")
    help = "model that turns texts into vectors: a GGUF file, or hf:user/repo:quant"
    add("--embedding-model FILE", help)
    help = "how the vectors of tokens become one of the text; default: as its file says"
    add("--pooling", help, kind=Literal["mean", "cls", "last"])
    help = "maximum tokens of a text; default: what the model was trained on, at most 2,048"
    add("--embedding-context N", help, kind=int)


def find_embedding_service(
    options: argparse.Namespace, settings: Settings
) -> "EmbeddingService | None":
    """Returns the model for embeddings that the options name, if they name one.

    Raises:
        RequestError: an option of the embedding model is given without the model.
        ModelError: there is no such file.
    """
    given: str | None = options.embedding_model
    if given is None:
        for name in ("pooling", "embedding_context"):
            if getattr(options, name) is not None:
                message = "there is no model for embeddings"
                hint = "Name it: --embedding-model FILE"
                raise RequestError(message, where=f"/{name}", hint=hint)
        return None
    from constrained.engine.model_files.local_models import name_model
    from constrained.model.embedding.embedding_model import load_embeddings
    from server.models.embedding_service import EmbeddingService

    # A missing file shows, or is downloaded, before the first request.
    path = shared.find_file(given, options)
    engine_options = shared.read_engine_options(options)
    engine_options["context_length"] = options.embedding_context
    engine_options.pop("lora", None)  # adapters are for the model that generates
    load = partial(load_embeddings, path, pooling=options.pooling, **engine_options)
    return EmbeddingService(name_model(path), load, settings)
