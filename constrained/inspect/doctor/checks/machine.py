"""Checks what the model needs, and how fast it can be on this machine.

Each token reads all active weights once, so the memory bandwidth limits the speed: bytes per
second, divided by bytes of weights. The bandwidth is measured by copying, which reads and writes.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from constrained.engine.gguf.contents import GgufContents, count_bytes
from constrained.engine.gguf.weights import (
    count_weights,
    describe_types,
    find_false_claim,
    measure_bits,
)
from constrained.engine.host import available_memory
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.verdicts import Level, Verdict

_BUFFER = 64 << 20  # bytes: more than the caches of a CPU
_COPIES = 4
_FEW_BITS = 3.5  # per weight: below this, calls of small models get worse
_FEW_TOKENS = 4096  # of a context: agents need more at the start
_VALUE = 2  # bytes of a number in the KV cache
_SPARE = 300_000_000  # bytes for computation


def check_machine(subject: Subject) -> Iterator[Verdict]:
    """Checks context, quantisation, memory, and the limit of the speed."""
    contents = subject.contents
    if contents is None or contents.damage or not contents.tensors:
        return
    yield from _judge_context(contents)
    yield from _judge_quantisation(contents, subject.name)
    yield from _judge_memory(contents)
    yield _judge_speed(contents, subject.bandwidth)


def _judge_context(contents: GgufContents) -> Iterator[Verdict]:
    length = contents.own("context_length")
    if length is None:
        text = "the file does not state the context length that it was trained on"
        yield Verdict(Level.WARNING, text)
        return
    level, remedy = Level.OK, ""
    if length < _FEW_TOKENS:
        level, remedy = (
            Level.NOTE,
            "Too short for many tools: their schemas alone take thousands of tokens",
        )
    text = f"it was trained on a context of {length:,} tokens"
    yield Verdict(level, text, remedy, {"context": length})


def _judge_quantisation(contents: GgufContents, name: str) -> Iterator[Verdict]:
    counts, bits = count_weights(contents.tensors), measure_bits(contents.tensors)
    total = counts.total()
    if not total:
        return
    text = f"{total / 1e9:,.2f} billion weights"
    if bits is not None:
        text += f" of {bits:.1f} bits"
    level, remedy = Level.OK, ""
    if bits is not None and bits < _FEW_BITS:
        level, remedy = Level.NOTE, "The grammar keeps calls valid, but their values get worse"
    facts = {"weights": total, "bits": bits and round(bits, 2), "types": dict(counts)}
    yield Verdict(level, f"{text}: {describe_types(counts)}", remedy, facts)
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


def measure_read(contents: GgufContents) -> int:
    """Returns the bytes of weights that each token reads: of experts, the active ones; of the
    embedding, one row, unless it is also the output matrix."""
    names = {tensor.name for tensor in contents.tensors}
    count, used = contents.own("expert_count"), contents.own("expert_used_count")
    total = 0.0
    for tensor in contents.tensors:
        size = float(count_bytes(tensor) or 0)
        if "_exps" in tensor.name and count and used:
            size *= min(1.0, used / count)
        if tensor.name == "token_embd.weight" and "output.weight" in names:
            size = 0.0
        total += size
    return int(total)


def measure_bandwidth() -> float:
    """Measures how many bytes per second this machine copies: the best of several tries."""
    source = np.ones(_BUFFER, dtype=np.uint8)
    target = np.empty_like(source)
    fastest = float("inf")
    for _ in range(_COPIES):
        started = time.perf_counter()
        np.copyto(target, source)
        fastest = min(fastest, time.perf_counter() - started)
    return 2 * _BUFFER / fastest


def _judge_speed(contents: GgufContents, stated: float | None) -> Verdict:
    read = measure_read(contents)
    bandwidth = stated or measure_bandwidth()
    origin = "as stated" if stated else "measured on one core by copying"
    rate = bandwidth / max(1, read)
    text = (
        f"at most about {rate:,.0f} tokens a second: each reads {_show(read)} of weights, at "
        f"{_show(bandwidth)} a second ({origin})"
    )
    facts = {"read": read, "bandwidth": round(bandwidth), "tokens_per_second": round(rate, 1)}
    remedy = (
        "An upper bound, for short contexts on the CPU; for a GPU, state its --bandwidth. "
        "`constrained bench` measures the actual speed"
    )
    return Verdict(Level.OK, text, remedy, facts)


def _show(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"
