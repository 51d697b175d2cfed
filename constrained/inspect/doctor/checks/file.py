"""Checks whether a GGUF file is complete, its metadata are consistent, it is what its name
says, and fits into this machine."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from constrained.engine.gguf.contents import TYPES, GgufContents, count_bytes
from constrained.engine.gguf.weights import (
    count_weights,
    describe_types,
    find_false_claim,
    measure_bits,
)
from constrained.engine.host import available_memory
from constrained.errors import ModelError
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.verdicts import Level, Verdict

_AGAIN = "Download the file again, or convert the model again"
_CONVERT = "Convert the model again, with the tokenizer of its own repository"
_LAYER = re.compile(r"blk\.(\d+)\.")
_ANNOUNCED = "split.tensors.count"
_SPECIAL = ("bos", "eos", "eot", "eom", "unknown", "padding")
# Families with their own vocabulary and architecture: pre-tokenizers, and prefixes of
# architectures. All other pairs are common: many vocabularies are used with the architecture of
# Llama.
_FAMILIES = {
    "Qwen": (("qwen2", "qwen35"), ("qwen",)),
    "Llama 3": (("llama-bpe", "llama3", "llama-v3", "llama4"), ("llama",)),
    "Gemma": (("gemma",), ("gemma",)),
    "Command R": (("command-r",), ("command-r", "cohere")),
    "gpt-oss": (("gpt-4o",), ("gpt-oss",)),
    "Kimi": (("kimi-k2",), ("deepseek2", "kimi")),
    "GLM": (("glm4", "chatglm-bpe"), ("glm", "chatglm")),
    "Hunyuan": (("hunyuan",), ("hunyuan",)),
}
_SHARED = {"gpt-oss": "phi"}  # Phi 4 has that vocabulary, too
_FEW_TOKENS = 4096  # of the context that memory is computed for
_VALUE = 2  # bytes of a number in the KV cache
_SPARE = 300_000_000  # bytes for computation


def check_file(subject: Subject) -> Iterator[Verdict]:
    contents = subject.contents
    if contents is None:
        return
    lacking = [*_find_missing_parts(subject.parts)]
    if lacking:
        yield from lacking
        return
    problems = [*_find_damage(subject.parts)]
    if not contents.damage:
        problems += [*_check_tokens(contents), *_check_layers(contents), *_check_family(contents)]
    if isinstance(subject.header, ModelError):
        error = subject.header
        problems.append(Verdict(Level.FAILURE, error.message, error.hint or ""))
    if not problems:
        count = len(contents.tokens)
        if not contents.tensors:
            text = f"the file has {count:,} tokens, and no weights: it is only a vocabulary"
            yield Verdict(Level.WARNING, text, "Name the file that has the weights")
            return
        text = f"{len(contents.tensors)} tensors and {count:,} tokens, all present"
        if len(subject.parts) > 1:
            text += f", in {len(subject.parts)} files"
        yield Verdict(Level.OK, text)
    yield from problems


def _find_missing_parts(parts: Mapping[str, GgufContents]) -> Iterator[Verdict]:
    """Checks for a split file whether the first part was given, and all other parts are in its
    folder."""
    [name, *_], [first, *_] = [*parts], [*parts.values()]
    count = first.number("split.count") or 1
    number = first.number("split.no") or 0
    if count == 1 or first.damage:
        return
    if number > 0:
        text = f"this is part {number + 1} of {count}: the vocabulary and template are in the first"
        yield Verdict(Level.FAILURE, text, f"Name the first part (-00001-of-{count:05}.gguf)")
        return
    if len(parts) != count:
        text = f"{name} is the first of {count} parts, and {len(parts)} are in its folder"
        remedy = f"Download all parts into one folder, with their names (-00001-of-{count:05}.gguf)"
        yield Verdict(Level.FAILURE, text, remedy, {"parts": count, "there": len(parts)})
        return
    if any(one.damage for one in parts.values()):
        return
    total, announced = sum(len(one.tensors) for one in parts.values()), first.number(_ANNOUNCED)
    if announced not in (None, total):
        text = f"the parts have {total} tensors, but {_ANNOUNCED} is {announced}"
        yield Verdict(Level.FAILURE, text, "Download all parts again: they are not from one model")


def _find_damage(parts: Mapping[str, GgufContents]) -> Iterator[Verdict]:
    for name, contents in parts.items():
        what = "the file" if len(parts) == 1 else name
        ends = [contents.data + one.offset + (count_bytes(one) or 0) for one in contents.tensors]
        missing = max(ends, default=0) - contents.size
        if contents.damage:
            yield Verdict(Level.FAILURE, f"{what} is damaged: {contents.damage}", _AGAIN)
        elif missing > 0:
            text = f"{what} is truncated: {missing:,} of its bytes are missing"
            yield Verdict(Level.FAILURE, text, "Download it again", {"missing": missing})
    [first, *_] = parts.values()
    if not first.damage and not first.architecture:
        yield Verdict(Level.FAILURE, "general.architecture is missing", _AGAIN)
    tensors = [tensor for contents in parts.values() for tensor in contents.tensors]
    unknown = sorted({tensor.kind for tensor in tensors if tensor.kind not in TYPES})
    if unknown:
        numbers = ", ".join(map(str, unknown))
        text = f"it has tensors of unknown types: {numbers}"
        yield Verdict(Level.NOTE, text, "A newer llama.cpp may know them")


def _check_tokens(contents: GgufContents) -> Iterator[Verdict]:
    count = len(contents.tokens)
    if not count:
        text = "the file has no vocabulary (tokenizer.ggml.tokens)"
        yield Verdict(Level.FAILURE, text, _CONVERT)
        return
    types = len(contents.token_types)
    if types not in (0, count):
        text = f"there are {count:,} tokens, but types of {types:,} (tokenizer.ggml.token_type)"
        yield Verdict(Level.FAILURE, text, _CONVERT)
    declared = contents.own("vocab_size")
    if declared is not None and declared != count:
        text = f"vocab_size is {declared:,}, but there are {count:,} tokens"
        yield Verdict(Level.WARNING, text, _CONVERT)
    for tensor in contents.tensors:
        if tensor.name in ("token_embd.weight", "output.weight") and tensor.shape[-1] != count:
            text = f"{tensor.name} is for {tensor.shape[-1]:,} tokens, but there are {count:,}"
            yield Verdict(Level.FAILURE, text, _CONVERT)
    for name in _SPECIAL:
        number = contents.number(f"tokenizer.ggml.{name}_token_id")
        if number is not None and not 0 <= number < count:
            text = f"{name}_token_id is {number:,}, but there are {count:,} tokens"
            yield Verdict(Level.FAILURE, text, _CONVERT)
    if contents.number("tokenizer.ggml.eos_token_id") is None:
        text = "the file does not state which token ends a text (tokenizer.ggml.eos_token_id)"
        yield Verdict(Level.WARNING, text, "gguf-py's gguf_set_metadata.py can set it")


def _check_layers(contents: GgufContents) -> Iterator[Verdict]:
    stated = contents.own("block_count")
    found = [_LAYER.match(tensor.name) for tensor in contents.tensors]
    numbers = {int(match[1]) for match in found if match}
    if stated is None or not numbers:
        return
    highest = max(numbers) + 1
    if highest != stated or len(numbers) != highest:
        text = f"block_count is {stated}, but there are tensors of {len(numbers)} layers"
        yield Verdict(Level.FAILURE, text, _AGAIN)


def _check_family(contents: GgufContents) -> Iterator[Verdict]:
    """Checks for a vocabulary of one family with the architecture of another."""
    pre, architecture = contents.text("tokenizer.ggml.pre"), contents.architecture
    of_tokens = _find_family(pre, 0)
    of_model = _find_family(architecture, 1)
    if not of_tokens or not of_model or of_tokens == of_model:
        return
    if architecture.startswith(_SHARED.get(of_tokens, "\0")):
        return
    yield Verdict(
        Level.WARNING,
        f"the vocabulary is that of {of_tokens} (tokenizer.ggml.pre is {pre}), the architecture "
        f"that of {of_model} ({architecture})",
        "Few models are like this. If it writes nonsense, it was put together wrongly: " + _CONVERT,
        {"vocabulary": of_tokens, "architecture": of_model},
    )


def _find_family(name: str, part: int) -> str:
    for family, prefixes in _FAMILIES.items():
        if name.startswith(prefixes[part]) and name:
            return family
    return ""


def check_machine(subject: Subject) -> Iterator[Verdict]:
    contents = subject.contents
    if contents is None or contents.damage or not contents.tensors:
        return
    yield from _judge_context(contents)
    yield from _judge_quantisation(contents, subject.name)
    yield from _judge_memory(contents)


def _judge_context(contents: GgufContents) -> Iterator[Verdict]:
    length = contents.own("context_length")
    if length is None:
        text = "the file does not state the context length that it was trained on"
        yield Verdict(Level.WARNING, text)
        return
    text = f"it was trained on a context of {length:,} tokens"
    yield Verdict(Level.OK, text, facts={"context": length})


def _judge_quantisation(contents: GgufContents, name: str) -> Iterator[Verdict]:
    counts, bits = count_weights(contents.tensors), measure_bits(contents.tensors)
    total = counts.total()
    if not total:
        return
    text = f"{total / 1e9:,.2f} billion weights"
    if bits is not None:
        text += f" of {bits:.1f} bits"
    facts = {"weights": total, "bits": bits and round(bits, 2), "types": dict(counts)}
    yield Verdict(Level.OK, f"{text}: {describe_types(counts)}", facts=facts)
    claim = find_false_claim(contents, name)
    if claim is not None:
        remedy = f"{claim.reason}. Compare files by bits per weight, not by name"
        facts = {"claim": claim.claim, "bits": claim.bits, "types": dict(claim.counts)}
        yield Verdict(Level.WARNING, str(claim), remedy, facts)


def measure_cell(contents: GgufContents) -> int | None:
    """Returns the bytes of the KV cache for each token, in f16; None: the file has different
    numbers for each layer, or none."""
    layers, heads = contents.own("block_count"), contents.own("attention.head_count")
    width = contents.own("embedding_length")
    if not layers or not heads or not width:
        return None
    key_heads = contents.own("attention.head_count_kv") or heads
    if contents.metadata.get(f"{contents.architecture}.attention.head_count_kv", 0) is None:
        return None  # a list, with a number for each layer
    key = contents.own("attention.key_length") or width // heads
    value = contents.own("attention.value_length") or width // heads
    return layers * key_heads * (key + value) * _VALUE


def _judge_memory(contents: GgufContents) -> Iterator[Verdict]:
    free, cell = available_memory(), measure_cell(contents)
    length = min(contents.own("context_length") or _FEW_TOKENS, _FEW_TOKENS)
    context = (cell or 0) * length
    needed = contents.weights + context + _SPARE
    facts: dict[str, Any] = {"weights": contents.weights, "cell": cell, "free": free}
    text = f"it needs {_show(needed)}: {_show(contents.weights)} of weights"
    if cell is not None:
        text += (
            f", {_show(context)} for a context of {length:,} tokens ({cell / 1024:.0f} KiB each)"
        )
    if free is None:
        yield Verdict(Level.OK, text, facts=facts)
        return
    text += f"; {_show(free)} are free on this machine"
    if contents.weights > free:
        remedy = "Use a smaller quantization or model: this one would be read from disk"
        yield Verdict(Level.FAILURE, text, remedy, facts)
    elif needed > free:
        remedy = "Use a shorter context (-c), or keep it in q8_0 (-ctk, -ctv)"
        yield Verdict(Level.WARNING, text, remedy, facts)
    else:
        yield Verdict(Level.OK, text, facts=facts)


def _show(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"
