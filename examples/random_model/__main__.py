"""Writes a random model: `python -m examples.random_model OUT.gguf`."""

import argparse
from pathlib import Path

from examples.random_model.build import write_model
from examples.random_model.sources import SourceUnavailable, template, vocabulary_file
from examples.random_model.vocabulary import MARKERS, load_small, read_vocabulary, with_markers


def main() -> None:
    """Carries out the command line; ends with a message where something is missing."""
    parser = argparse.ArgumentParser(prog="python -m examples.random_model", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    parser.add_argument("--vocabulary", choices=["small", "qwen2"], default="small")
    parser.add_argument(
        "--markers",
        choices=["token", "text"],
        default="token",
        help=f"whether {', '.join(MARKERS)} are one token each (default) or ordinary text",
    )
    parser.add_argument(
        "--template",
        metavar="NAME_OR_PATH",
        help="a Jinja file, or a template of llama.cpp such as Qwen-Qwen3-0.6B; default: none",
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        chat_template = _chat_template(options.template) if options.template else None
        small = options.vocabulary == "small"
        tokens = load_small() if small else read_vocabulary(vocabulary_file(options.vocabulary))
        if options.markers == "token":
            tokens = with_markers(tokens, MARKERS)
        write_model(options.out, tokens, chat_template, seed=options.seed)
    except (OSError, SourceUnavailable) as error:
        raise SystemExit(f"error: {error}") from error
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB, {len(tokens.tokens)} tokens")


def _chat_template(name_or_path: str) -> str:
    path = Path(name_or_path)
    return path.read_text(encoding="utf-8") if path.is_file() else template(name_or_path)


if __name__ == "__main__":
    main()
