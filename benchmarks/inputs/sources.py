"""A chat template for each format of the registry: one of ours, or one of llama.cpp's."""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from constrained.prompt.format_selection.generic import CHATML
from constrained.prompt.format_selection.selection import SelectedFormat, select_format
from constrained.prompt.template.chat_template import ChatTemplate
from examples.random_model import models_directory

OURS = Path(__file__).parents[2] / "examples" / "templates"
FIVE = ("hermes", "qwen3_coder", "mistral", "llama3_json", "generic")
"""The formats whose templates come with the repository."""

_LLAMA = {
    "apertus": "Apertus-8B-Instruct",
    "apriel": "Apriel-1.6-15b-Thinker-fixed",
    "cohere_moe": "Cohere2MoE",
    "command_r": "CohereForAI-c4ai-command-r-plus-tool_use",
    "command_r7b": "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "deepseek_r1": "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    "deepseek_v3": "deepseek-ai-DeepSeek-V3.1",
    "dsml": "deepseek-ai-DeepSeek-V3.2",
    "dsml_v4": "deepseek-ai-DeepSeek-V4",
    "firefunction": "fireworks-ai-llama-3-firefunction-v2",
    "functionary_v31": "meetkai-functionary-medium-v3.1",
    "functionary_v32": "meetkai-functionary-medium-v3.2",
    "gemma4": "google-gemma-4-31B-it",
    "gigachat3": "GigaChat3-10B-A1.8B",
    "gigachat31": "GigaChat3.1-10B-A1.8B",
    "glm45": "GLM-4.6",
    "glm47": "GLM-4.7-Flash",
    "harmony": "openai-gpt-oss-120b",
    "hunyuan": "tencent-Hy3",
    "kimi_k2": "Kimi-K2-Thinking",
    "kimi_k3": "Kimi-K3",
    "lfm2": "LFM2.5-8B-A1B",
    "ling": "inclusionai-ling-3.0-flash",
    "minicpm5": "openbmb-MiniCPM5-1B",
    "minimax_m1": "MiniMax-M1",
    "minimax_m2": "MiniMax-M2",
    "minimax_m3": "MiniMax-M3",
    "mistral_nemo": "mistralai-Mistral-Nemo-Instruct-2407",
    "mistral_small": "Mistral-Small-3.2-24B-Instruct-2506",
    "muse": "muse-glimmer",
    "nemotron_v2": "NVIDIA-Nemotron-Nano-v2",
    "seed_oss": "ByteDance-Seed-OSS",
    "solar": "upstage-Solar-Open-100B",
}
TEMPLATES = (*FIVE, *_LLAMA)
"""The names of all formats: each has a template."""


@lru_cache
def read_teaching(format: str) -> SelectedFormat:
    """Returns the template of a format, and what it teaches.

    Raises:
        SourceUnavailable: it is one of llama.cpp's, and there is no network.
    """
    source = read_source(format)
    return select_format(ChatTemplate(source, bos_token="<s>", eos_token="</s>", name=format))


def read_source(format: str) -> str:
    """Returns the text of the template of a format.

    Raises:
        SourceUnavailable: as above.
    """
    if format == "generic":
        return CHATML
    if format in FIVE:
        return (OURS / f"{format}.jinja").read_text(encoding="utf-8")
    path = models_directory() / "templates" / f"{_LLAMA[format]}.jinja"
    return path.read_text(encoding="utf-8")


def read_templates(path: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yields the names, sources and tokens of the templates in a folder, a file of Jinja, or a JSON
    Lines file whose rows have `name` and `template`, each name once."""
    if path.is_dir():
        for file in sorted(path.glob("*.jinja")):
            yield from read_templates(file)
    elif path.suffix == ".jinja":
        yield path.stem, path.read_text(encoding="utf-8"), {"bos_token": "<s>", "eos_token": "</s>"}
    else:
        seen: set[str] = set()
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if row["name"] not in seen:
                seen.add(row["name"])
                tokens = {key: row.get(key) or "" for key in ("bos_token", "eos_token")}
                yield row["name"], row["template"], tokens
