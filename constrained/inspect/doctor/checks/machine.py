"""Checks whether the model fits into this machine, and whether it is what its name says."""

from collections.abc import Iterator
from typing import Any

from constrained.engine.gguf.contents import GgufContents
from constrained.engine.gguf.weights import (
    count_weights,
    describe_types,
    find_false_claim,
    measure_bits,
)
from constrained.engine.host import available_memory
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.verdicts import Level, Verdict

_FEW_TOKENS = 4096  # of the context that memory is computed for
_VALUE = 2  # bytes of a number in the KV cache
_SPARE = 300_000_000  # bytes for computation


def check_machine(subject: Subject) -> Iterator[Verdict]:
    """Checks context, quantisation and memory."""
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
