"""The types of weights, and names that are false: on files that llama.cpp has quantised itself."""

from collections import Counter
from math import prod
from pathlib import Path

import llama_cpp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.engine.gguf.contents import TYPES, GgufContents, read_contents
from constrained.engine.gguf.reader import TensorInfo
from constrained.engine.gguf.weights import (
    FILE_TYPES,
    count_weights,
    describe_types,
    find_false_claim,
    measure_bits,
)
from constrained.model_files import embedded
from examples.random_model import load_small, write_model

NUMBERS = {name: number for number, name in FILE_TYPES.items()}
KINDS = {name: number for number, (name, _, _) in TYPES.items()}
MADE = {
    "F16": "F16",
    "Q8_0": "Q8_0",
    "Q6_K": "Q6_K",
    "Q4_K_M": "Q4_K",
    "Q4_0": "Q4_0",
    "Q3_K_M": "Q3_K",
    "Q2_K": "Q2_K",
}
"""Quantisations that are tried, and the type of most of their matrices."""


def quantise(source: Path, target: Path, name: str) -> GgufContents:
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.allow_requantize = NUMBERS[name], 1, True
    code = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), params)
    assert code == 0
    return read_contents(target)


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GgufContents]:
    """The demo model, whose rows are multiples of 256, by quantisation."""
    folder = tmp_path_factory.mktemp("quantised")
    return {name: quantise(embedded.PATH, folder / f"{name}.gguf", name) for name in MADE}


def make(tensors: dict[str, tuple[str, tuple[int, ...]]], **metadata: int) -> GgufContents:
    """A file of tensors: their types and shapes."""
    infos = [
        TensorInfo(name, shape, KINDS[type], offset=0) for name, (type, shape) in tensors.items()
    ]
    return GgufContents({key.replace("__", "."): value for key, value in metadata.items()}, infos)


@pytest.mark.parametrize("name", MADE)
def test_a_file_that_llama_cpp_names_is_named_rightly(
    name: str, quantised: dict[str, GgufContents]
) -> None:
    contents = quantised[name]
    assert contents.number("general.file_type") == NUMBERS[name]
    assert find_false_claim(contents, f"demo-{name}.gguf") is None
    assert find_false_claim(contents, "demo.gguf") is None


@pytest.mark.parametrize("other", MADE)
@pytest.mark.parametrize("name", MADE)
def test_a_file_of_another_name_is_told(
    name: str, other: str, quantised: dict[str, GgufContents]
) -> None:
    claim = find_false_claim(quantised[name], f"demo-{other}.gguf")
    if MADE[name] == MADE[other]:
        assert claim is None
        return
    assert claim is not None
    assert (claim.origin, claim.claim, claim.type) == ("its name", other, MADE[other])
    assert str(claim).startswith(f"its name says {other}, but the weights of its layers are ")
    assert not claim.unfit


@pytest.mark.parametrize(("name", "type"), [("Q4_K_M", "Q4_K"), ("Q6_K", "Q6_K")])
def test_rows_that_are_no_multiple_of_a_block_are_the_reason(
    name: str, type: str, tmp_path: Path
) -> None:
    source = write_model(tmp_path / "source.gguf", load_small(), None, n_layer=2)
    contents = quantise(source, tmp_path / "small.gguf", name)
    claim = find_false_claim(contents, "small.gguf")
    assert claim is not None
    assert (claim.origin, claim.claim) == ("general.file_type", name)
    assert claim.unfit
    assert all(length % 256 for length in claim.unfit)
    assert f"{type} has blocks of 256 weights, and rows of " in claim.reason
    honest = quantise(source, tmp_path / "honest.gguf", "Q5_0")
    assert find_false_claim(honest, "small-Q5_0.gguf") is None


def test_bits_are_those_of_the_file(quantised: dict[str, GgufContents]) -> None:
    for contents in quantised.values():
        bits = measure_bits(contents.tensors)
        total = count_weights(contents.tensors).total()
        assert bits is not None
        padding = contents.size - contents.data - round(bits * total / 8)
        assert 0 <= padding < 32 * len(contents.tensors)


def test_shares_of_types_are_told(quantised: dict[str, GgufContents]) -> None:
    counts = count_weights(quantised["Q4_K_M"].tensors)
    assert describe_types(counts) == "77 % Q4_K, 22 % Q6_K"
    assert describe_types(Counter()) == ""


def test_file_types_are_those_of_llama_cpp() -> None:
    known: dict[int, str] = {}
    for name, number in vars(llama_cpp).items():
        if name.startswith("LLAMA_FTYPE_") and name != "LLAMA_FTYPE_GUESSED":
            name = name.removeprefix("LLAMA_FTYPE_").removeprefix("MOSTLY_")
            known[number] = name.removeprefix("ALL_")
    assert known == FILE_TYPES


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("Qwen3-0.6B-UD-Q4_K_XL.gguf", "Q4_K_XL"),
        ("qwen2.5:0.5b-instruct-q4_K_M", "Q4_K_M"),
        ("model.q4_k_s.gguf", "Q4_K_S"),
        ("big-Q2_K-00001-of-00002.gguf", "Q2_K"),
        ("Llama-FP16-iq3_m.gguf", "IQ3_M"),
        ("llama-fp16.gguf", "FP16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("tiny-TQ1_0", "TQ1_0"),
    ],
)
def test_the_last_quantisation_of_a_name_is_its_claim(name: str, claim: str) -> None:
    contents = make({"blk.0.ffn_up.weight": ("Q5_1", (256, 1024))})
    found = find_false_claim(contents, name)
    assert found is not None
    assert found.claim == claim


@pytest.mark.parametrize(
    "name", ["sha256-af16bc", "qwen3", "Q5_1.gguf", "x-Q4.gguf", "x-Q9_K.gguf"]
)
def test_a_name_may_claim_nothing(name: str) -> None:
    contents = make({"blk.0.ffn_up.weight": ("Q5_1", (256, 1024))})
    assert find_false_claim(contents, name) is None


def test_the_name_counts_before_the_file_type() -> None:
    tensors = {"blk.0.ffn_up.weight": ("Q5_1", (256, 1024))}
    assert find_false_claim(make(tensors, general__file_type=15), "x-Q5_1.gguf") is None
    assert find_false_claim(make(tensors, general__file_type=15), "x.gguf") is not None


def test_a_third_of_the_weights_may_be_what_a_mixture_is_named_after() -> None:
    """So Q3_K_M is mixed where a model has no gates."""
    tensors = {
        "token_embd.weight": ("Q6_K", (1024, 50_000)),
        "blk.0.attn_qkv.weight": ("Q4_K", (1024, 3072)),
        "blk.0.attn_output.weight": ("Q4_K", (1024, 1024)),
        "blk.0.ffn_up.weight": ("Q3_K", (1024, 4096)),
        "blk.0.ffn_down.weight": ("Q4_K", (4096, 1024)),
    }
    assert find_false_claim(make(tensors), "phi-Q3_K_M.gguf") is None
    assert find_false_claim(make(tensors), "phi-Q2_K.gguf") is not None
    tensors["blk.0.ffn_down.weight"] = ("Q2_K", (4096, 1024))
    tensors["blk.0.attn_qkv.weight"] = ("Q2_K", (1024, 3072))
    assert find_false_claim(make(tensors), "phi-Q3_K_M.gguf") is not None


def test_rows_that_do_not_fit_count_although_the_type_is_not_rare() -> None:
    tensors = {
        "blk.0.ffn_up.weight": ("Q8_0", (576, 1536)),
        "blk.0.ffn_down.weight": ("Q6_K", (1536, 288)),
    }
    claim = find_false_claim(make(tensors), "small-Q6_K.gguf")
    assert claim is not None
    assert claim.unfit == [576]


def test_a_type_that_is_not_known_has_no_bits() -> None:
    contents = GgufContents({}, [TensorInfo("blk.0.ffn_up.weight", (256, 8), 99, offset=0)])
    assert measure_bits(contents.tensors) is None
    assert measure_bits([]) is None
    claim = find_false_claim(contents, "x-Q4_0.gguf")
    assert claim is not None
    assert str(claim).endswith("are 100 % type 99")


CLAIMS = [*FILE_TYPES.values(), "", "FP16", "Q8_K_XL", "UD-Q2_K_XL"]
sizes = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 32, 256, 896])
tensors = st.builds(
    TensorInfo,
    name=st.sampled_from(["blk.0.ffn_up.weight", "token_embd.weight", "", "blk."]),
    shape=st.lists(sizes, max_size=4).map(tuple),
    kind=st.integers(0, 45) | st.integers(0, 2**32 - 1),
    offset=sizes,
)


@given(st.lists(tensors, max_size=6), st.integers(-1, 2**32), st.sampled_from(CLAIMS))
def test_any_tensors_are_judged(tensors: list[TensorInfo], number: int, claim: str) -> None:
    contents = GgufContents({"general.file_type": number}, tensors)
    counts, bits = count_weights(tensors), measure_bits(tensors)
    assert counts.total() == sum(prod(tensor.shape) for tensor in tensors)
    assert bits is None or 0 <= bits <= 64
    assert len(describe_types(counts)) < 1000
    found = find_false_claim(contents, f"x-{claim}.gguf")
    if found is not None:
        assert str(found)
        assert found.reason
        assert found.counts.most_common(1)[0][0] != found.type


@pytest.mark.parametrize("type", KINDS)
def test_a_file_of_one_type_is_named_after_it(type: str) -> None:
    contents = make({"blk.3.attn_q.weight": (type, (512, 512))})
    assert find_false_claim(contents, f"m-{type}.gguf") is None
    other = "Q4_0" if type == "Q4_1" else "Q4_1"
    assert find_false_claim(contents, f"m-{other}.gguf") is not None
