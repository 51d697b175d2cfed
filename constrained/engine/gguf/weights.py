"""The types of a model's weights, and whether its file is named after them.

llama.cpp gives a file the name of the type that most matrices get, and takes other types for some:
Q4_K_M has Q6_K as well, Q3_K_M has Q4_K and Q5_K. So a name is false only if another type is more
common and its own is rare, has more bits than the weights, or does not fit the rows of most.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from constrained.engine.gguf.contents import TYPES, GgufContents, count_bytes
from constrained.engine.gguf.reader import TensorInfo

QUANTISATION = re.compile(
    r"(?<![A-Z0-9])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|(?:MX|NV)FP4(?:_\w+)?|BF16|FP?(?:16|32)))[.\-/]",
    re.IGNORECASE,
)
"""The name of a quantisation in the name of a file."""
FILE_TYPES: Mapping[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
"""Quantisations by the number in `general.file_type` (llama.h: enum llama_ftype)."""
# Quantisations that are not named after the type of most of their matrices.
_OTHER_TYPES = {"IQ2_S": "IQ2_XS", "IQ2_M": "IQ2_S", "IQ3_XS": "IQ3_S", "IQ3_M": "IQ3_S"}
FILE_TYPE = "general.file_type"
_BLOCKS = {name: block for name, block, _ in TYPES.values()}
_BITS = {name: 8 * size / block for name, block, size in TYPES.values()}
# A third of Q3_K_M is Q3_K where a model has no gates, and one matrix for queries, keys and values.
_MIN_SHARE = 0.25
_MAX_MISSING = 0.25  # bits: half of IQ3_XS is IQ3_XXS, which has 0.38 bits less


def count_weights(tensors: Iterable[TensorInfo]) -> Counter[str]:
    """Counts weights by the name of their type; of an unknown one, `type 99`."""
    counts = Counter[str]()
    for tensor in tensors:
        name = TYPES[tensor.kind][0] if tensor.kind in TYPES else f"type {tensor.kind}"
        counts[name] += prod(tensor.shape)
    return counts


def measure_bits(tensors: Iterable[TensorInfo]) -> float | None:
    """Returns the bits per weight; None: there are no weights, or a type is not known."""
    size = weights = 0
    for tensor in tensors:
        known = count_bytes(tensor)
        if known is None:
            return None
        size += known
        weights += prod(tensor.shape)
    return 8 * size / weights if weights else None


def describe_types(counts: Counter[str]) -> str:
    """Returns the share of each type, such as `87 % Q4_K, 13 % Q6_K`, without those below 1 %."""
    total = counts.total()
    shares: list[str] = []
    for name, count in counts.most_common():
        if 100 * count >= total > 0:
            shares.append(f"{100 * count / total:.0f} % {name}")
    return ", ".join(shares)


@dataclass(frozen=True)
class FalseClaim:
    """A file that is named after another type than that of its weights."""

    origin: str  # what names it: the name of the file, or `general.file_type`
    claim: str  # such as `Q4_K_M`
    type: str  # that most weights would have
    counts: Counter[str]  # the weights of the layers, by type
    bits: float | None  # per weight of these; None: a type is not known
    unfit: Sequence[int]  # lengths of rows that cannot have this type; empty if these are few

    def __str__(self) -> str:
        types = describe_types(self.counts)
        text = f"{self.origin} says {self.claim}, but the weights of its layers are {types}"
        if self.bits is None:
            return text
        return f"{text}: {self.bits:.1f} bits each, not about {_BITS[self.type]:.1f}"

    @property
    def reason(self) -> str:
        """Why, as far as the file shows it."""
        if not self.unfit:
            return "It was named wrongly, or converted in another way than its name says"
        lengths = " and ".join(map(str, self.unfit))
        return (
            f"{self.type} has blocks of {_BLOCKS[self.type]} weights, and rows of {lengths} are "
            "no multiple of that: llama.cpp takes larger types for them"
        )


def find_false_claim(contents: GgufContents, name: str) -> FalseClaim | None:
    """Returns what is false about the name of a file, or about `general.file_type` if it names no
    quantisation; None: nothing, or there is no type."""
    origin, claim = "its name", _find_claim(name)
    number = contents.number(FILE_TYPE)
    if not claim and number is not None:
        origin, claim = FILE_TYPE, FILE_TYPES.get(number, "")
    wanted = _find_type(claim)
    # Only the matrices of the layers: embeddings and the output have types of their own, and what
    # is no matrix is never quantised.
    layers = [one for one in contents.tensors if "blk." in one.name and len(one.shape) > 1]
    counts, bits = count_weights(layers), measure_bits(layers)
    if wanted is None or not counts:
        return None
    [(commonest, _)] = counts.most_common(1)
    is_rare = counts[wanted] < _MIN_SHARE * counts.total()
    is_small = bits is not None and bits < _BITS[wanted] - _MAX_MISSING
    unfit = _find_unfit(layers, _BLOCKS[wanted])
    if commonest in (wanted, claim) or not (is_rare or is_small or unfit):
        return None
    return FalseClaim(origin, claim, wanted, counts, bits, unfit)


def _find_claim(name: str) -> str:
    """Returns the last quantisation in the name of a file or model; "" if there is none."""
    found = QUANTISATION.findall(f"{name}.")
    return found[-1].upper().removeprefix("UD-") if found else ""


def _find_type(claim: str) -> str | None:
    """Returns the type that most matrices of a quantisation have; None: it is not known."""
    claim = claim.replace("FP16", "F16").replace("FP32", "F32")
    if claim in _OTHER_TYPES:
        return _OTHER_TYPES[claim]
    parts = claim.split("_")
    for length in range(len(parts), 0, -1):
        name = "_".join(parts[:length])
        if name in _BITS:
            return name
    return None


def _find_unfit(tensors: Iterable[TensorInfo], block: int) -> list[int]:
    """Returns the lengths of rows that are no multiple of a block, if most weights are in such
    rows."""
    weights = Counter[int]()
    for tensor in tensors:
        weights[tensor.shape[0]] += prod(tensor.shape)
    unfit = [length for length in sorted(weights) if length % block]
    if 2 * sum(weights[length] for length in unfit) < weights.total():
        return []
    return unfit
