"""Training: what is learned from, that it is learned, and that a run goes on where it stopped."""

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="extra train")

from examples.demo_model.attention import attend
from examples.demo_model.conversations import draw_conversation, training_source
from examples.demo_model.exam import draw_questions
from examples.demo_model.feed import Batch, Encoder, Feed, draw_copies
from examples.demo_model.network import Shape
from examples.demo_model.optimizer import orthogonalise
from examples.demo_model.recall import count_exact
from examples.demo_model.train import Progress, Run, find_targets, rate_at
from examples.demo_model.vocabulary import load_vocabulary

torch.set_num_threads(1)  # several would wait for each other on a busy machine
N_VOCAB = len(load_vocabulary().tokens)
SHAPE = Shape(n_vocab=N_VOCAB, n_layer=1, n_embd=256, n_ff=256)


def make_run(folder: Path) -> Run:
    return Run(SHAPE, "muon", folder, torch.device("cpu"), compiled=False)


def copies(seed: int) -> Batch:
    return draw_copies(torch.Generator().manual_seed(seed), (4, 32), 300)


def test_a_run_goes_on_where_it_stopped(tmp_path: Path):
    run = make_run(tmp_path)
    for seed in range(3):
        run.learn(copies(seed), 1.0)
    run.save("last")
    wanted = [run.learn(copies(seed), 1.0) for seed in (3, 4)]
    again = make_run(tmp_path)
    again.resume("last")
    assert again.progress.step == 3
    assert [again.learn(copies(seed), 1.0) for seed in (3, 4)] == pytest.approx(wanted, rel=1e-4)


def test_it_learns(tmp_path: Path):
    run = make_run(tmp_path)
    batch = copies(0)
    losses = [run.learn(batch, 0.5) for _ in range(12)]
    assert losses[-1] < 0.8 * losses[0]


def test_targets_are_what_comes_next():
    tokens = torch.tensor([[5, 6, 7, 8], [1, 2, 3, 4]])
    targets = torch.tensor([[False, True, False, True], [True, False, False, True]])
    places, wanted = find_targets(Batch(tokens, targets))
    assert wanted.tolist() == [6, 8, 4]
    assert places.tolist() == [0, 2, 6]


def test_rates():
    assert rate_at(Progress(step=0), 100, 0.4) < 0.1
    assert rate_at(Progress(step=500, positions=50), 100, 0.4) == 1
    assert rate_at(Progress(step=500, positions=80), 100, 0.4) == pytest.approx(0.5)
    assert rate_at(Progress(step=500, positions=100), 100, 0.4) == 0


def test_attention_is_that_of_torch():
    random = torch.Generator().manual_seed(0)
    shape = (2, 3, 300, 64)
    mixed = dict[str, list[torch.Tensor]]()
    values = [torch.randn(shape, generator=random) for _ in range(4)]
    for name, function in (("ours", attend), ("torch", attend_as_torch)):
        inputs = [value.clone().requires_grad_() for value in values[:3]]
        out = function(*inputs)
        out.backward(values[3])
        mixed[name] = [out.detach(), *(value.grad for value in inputs)]
    for ours, wanted in zip(mixed["ours"], mixed["torch"], strict=True):
        assert torch.allclose(ours, wanted, atol=1e-4)


def attend_as_torch(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)


def test_orthogonal():
    matrices = orthogonalise(torch.randn(2, 64, 32, generator=torch.Generator().manual_seed(0)))
    sizes = torch.linalg.svdvals(matrices)
    assert sizes.min() > 0.4
    assert sizes.max() < 1.5


def test_batches_are_the_same_from_any_start():
    first = [batch.chunk for batch in islice(Feed(8192, size=80), 10)]
    assert first == sorted(first)
    later = next(iter(Feed(8192, 1, 80)))
    wanted = next(batch for batch in Feed(8192, size=80) if batch.chunk == 1)
    assert torch.equal(later.tokens, wanted.tokens)
    assert torch.equal(later.targets, wanted.targets)


def test_each_letter_token_is_a_target():
    vocabulary = load_vocabulary()
    encoder = Encoder()
    counts = Counter[int]()
    source = training_source()
    for seed in range(1500):
        row = encoder.encode_conversation(draw_conversation(source, seed, encoder.pieces))
        counts.update(id for id, is_target in zip(*row, strict=True) if is_target)
    ids = [vocabulary.id_of(piece) for piece in encoder.pieces]
    unused = [vocabulary.tokens[id] for id in ids if not counts[id]]
    assert len(unused) < 0.04 * len(ids), unused  # of 1,500 conversations; a run has 100,000


def test_exact_counts_only_what_is_written(tmp_path: Path):
    run = make_run(tmp_path)
    encoder = Encoder()
    questions = [q for q in draw_questions("seen", 12) if q.calls]
    assert count_exact(run.network, encoder, questions) == 0
