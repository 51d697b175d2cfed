# pyright: reportMissingImports=false
"""Batches for training, made by processes of their own while the network is busy."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from examples.demo_model.conversations import Conversation, draw_conversation, training_source
from examples.demo_model.dialogue import cut
from examples.demo_model.vocabulary import letter_pieces, load_vocabulary, make_encoder

LENGTHS = (256, 320, 384, 512, 704, 1024, 2048)  # few shapes: each is compiled once
CHUNK = 768  # conversations that are sorted by length together

Row = tuple[list[int], list[bool]]  # tokens, and which of them are targets


@dataclass(frozen=True)
class Batch:
    """Rows of tokens, which of them the network has to foretell, and the chunk that they are of."""

    tokens: torch.Tensor
    targets: torch.Tensor
    chunk: int = 0

    def to(self, device: torch.device) -> "Batch":
        """The same on a device."""
        return Batch(self.tokens.to(device), self.targets.to(device), self.chunk)


class Encoder:
    """Turns conversations into tokens."""

    def __init__(self) -> None:
        vocabulary = load_vocabulary()
        self.pieces = letter_pieces(vocabulary)
        self.pad = vocabulary.pad or 0
        self.call = vocabulary.id_of("<tool_call>")
        self._encoder = make_encoder(vocabulary)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; markers in it are single tokens."""
        return self._encoder.encode(text, add_special_tokens=False).ids

    def encode_conversation(self, conversation: Conversation) -> Row:
        """The tokens, and which of them the assistant writes."""
        tokens, targets = list[int](), list[bool]()
        for text, is_target in cut(conversation):
            ids = self.encode(text)
            tokens += ids
            targets += [is_target] * len(ids)
        return tokens, targets

    def batch(self, rows: list[Row], length: int, chunk: int = 0) -> Batch:
        """Rows of one length, padded at the end."""
        tokens = np.full((len(rows), length), self.pad, dtype=np.int64)
        targets = np.zeros((len(rows), length), dtype=bool)
        for place, (ids, marks) in enumerate(rows):
            tokens[place, : len(ids)], targets[place, : len(ids)] = ids, marks
        return Batch(torch.from_numpy(tokens), torch.from_numpy(targets), chunk)


class Feed(torch.utils.data.IterableDataset[Batch]):
    """Batches of about so many positions, from chunk `start` on, without end.

    A chunk is drawn from its own number, so that a run goes on where another has stopped.
    """

    def __init__(self, positions: int, start: int = 0, size: int = CHUNK):
        self.positions, self.start, self.size = positions, start, size

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        number, step = (worker.id, worker.num_workers) if worker else (0, 1)
        encoder, source = Encoder(), training_source()
        for chunk in _count(self.start + number, step):
            rows = [
                encoder.encode_conversation(draw_conversation(source, seed, encoder.pieces))
                for seed in range(chunk * self.size, (chunk + 1) * self.size)
            ]
            yield from self._batches(rows, encoder, chunk)

    def _batches(self, rows: list[Row], encoder: Encoder, chunk: int) -> list[Batch]:
        batches = list[Batch]()
        shelves: dict[int, list[Row]] = {}
        for row in rows:
            length = next((n for n in LENGTHS if len(row[0]) <= n), None)
            if length is None:
                continue
            shelf = shelves.setdefault(length, [])
            shelf.append(row)
            if len(shelf) == self.positions // length:
                batches.append(encoder.batch(shelves.pop(length), length, chunk))
        random.Random(chunk).shuffle(batches)  # what is left on the shelves is dropped
        return batches


def _count(start: int, step: int) -> Iterator[int]:
    while True:
        yield start
        start += step


def draw_copies(random: torch.Generator, shape: tuple[int, int], n_vocab: int) -> Batch:
    """Random tokens, twice: to learn early that what has been can be copied."""
    rows, length = shape
    half = torch.randint(n_vocab, (rows, length // 2), generator=random)
    tokens = torch.cat((half, half), dim=1)
    targets = torch.zeros_like(tokens, dtype=torch.bool)
    targets[:, length // 2 + 1 :] = True
    return Batch(tokens, targets)
