# pyright: reportMissingImports=false
"""Trains the model: `python -m examples.demo_model.train FOLDER --positions 60e6 --minutes 75`.

Stops after so many minutes and goes on when called again, with the state in FOLDER. The rate rises,
stays, and falls over the last part of the positions; where it begins to fall, the state is kept as
stable.pt: `--branch` goes on from there with more positions.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from examples.demo_model.exam import draw_questions
from examples.demo_model.feed import Batch, Encoder, Feed, draw_copies
from examples.demo_model.network import Network, Shape
from examples.demo_model.optimizer import make_optimizers
from examples.demo_model.recall import count_exact
from examples.demo_model.tensors import restore_weights
from examples.demo_model.vocabulary import load_vocabulary

torch._dynamo.config.recompile_limit = 32  # one for each length of rows, and for each way to go
WARM_UP, COPYING, REPORT = 60, 120, 50  # steps
SAVE = 300  # seconds


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        chunk: of the feed, the first one that no batch has come from.
    """

    step: int = 0
    positions: int = 0
    seconds: float = 0.0
    chunk: int = 0
    stable: bool = True


class Run:
    """A network under training, with all that a checkpoint holds."""

    def __init__(
        self,
        shape: Shape,
        kind: str,
        folder: Path,
        device: torch.device,
        *,
        compiled: bool = True,
    ):
        torch.manual_seed(0)
        self.folder, self.device = folder, device
        self.network = Network(shape).to(device)
        self.optimizers = make_optimizers(self.network, kind)
        self.rates = [[g["lr"] for g in o.param_groups] for o in self.optimizers]
        self.progress, self.copies = Progress(), COPYING
        self.random = torch.Generator().manual_seed(1)
        self.encoder = Encoder()
        for block in self.network.blocks if compiled else ():
            block.compile(dynamic=False)  # one by one: all are the same code

    def learn(self, batch: Batch, rate: float) -> float:
        """One step; `rate` is a factor of the rates. Returns the loss."""
        places, wanted = find_targets(batch)
        hidden = self.network.hidden(batch.tokens, torch.bfloat16).flatten(0, 1)
        loss = functional.cross_entropy(self.network.logits(hidden[places]), wanted)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
            for group, full in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = full * rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.progress.step += 1
        self.progress.positions += batch.tokens.numel()
        return loss.item()

    def save(self, name: str) -> None:
        """Writes a checkpoint; an older one stays whole until the new one is."""
        state = {
            "shape": asdict(self.network.shape),
            "network": self.network.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": asdict(self.progress),
            "random": self.random.get_state(),
        }
        draft = self.folder / f"{name}.new"
        torch.save(state, draft)
        draft.replace(self.folder / f"{name}.pt")

    def resume(self, name: str) -> None:
        """Reads a checkpoint that `save` has written."""
        state: dict[str, Any] = torch.load(self.folder / f"{name}.pt", map_location=self.device)
        self.network.load_state_dict(state["network"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.progress = Progress(**state["progress"])
        self.random.set_state(state["random"].cpu())

    def examine(self, count: int = 200) -> dict[str, float]:
        """The share of questions answered exactly, without a mask."""
        groups = ("seen", "unseen", "handwritten")
        with torch.compiler.set_stance("force_eager"):  # each length would be compiled
            return {
                group: count_exact(self.network, self.encoder, draw_questions(group, count))
                for group in groups
            }

    def log(self, line: dict[str, Any]) -> None:
        """Writes one line of the log."""
        text = json.dumps(line)
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            print(text, file=file)
        print(text, flush=True)


def find_targets(batch: Batch) -> tuple[Tensor, Tensor]:
    """Where a target comes next (in the flattened batch), and which one."""
    here = batch.targets[:, 1:].flatten().nonzero().squeeze(1)
    width = batch.tokens.shape[1]
    rows, columns = here // (width - 1), here % (width - 1)
    places = rows * width + columns
    return places, batch.tokens.flatten()[places + 1]


def rate_at(progress: Progress, total: int, falling: float) -> float:
    """The factor of the rates: up over the first steps, flat, down over the last part."""
    rising = min(1.0, (progress.step + 1) / WARM_UP)
    left = 1 - progress.positions / total
    return rising * min(1.0, max(left / falling, 0.0))


def train(run: Run, options: argparse.Namespace) -> None:
    """Trains until the positions or the minutes are spent."""
    total, started = int(options.positions), time.monotonic()
    feed = Feed(options.batch, run.progress.chunk)
    batches = torch.utils.data.DataLoader(
        feed, batch_size=None, num_workers=options.workers, prefetch_factor=40
    )
    begun, saved, losses = run.progress.seconds, started, list[float]()
    for batch in batches:
        now = time.monotonic()
        run.progress.seconds = begun + now - started
        if run.progress.positions >= total or now - started > options.minutes * 60:
            break
        if run.progress.stable and 1 - run.progress.positions / total < options.falling:
            run.save("stable")
            run.progress.stable = False
        for chosen in _mix(run, batch):
            rate = options.peak * rate_at(run.progress, total, options.falling)
            losses.append(run.learn(chosen.to(run.device), rate))
        run.progress.chunk = max(run.progress.chunk, batch.chunk + 1)
        if len(losses) >= REPORT:
            run.log(asdict(run.progress) | {"loss": round(sum(losses) / len(losses), 4)})
            losses.clear()
        if now - saved > SAVE:
            run.save("last")
            saved = now
    run.save("last")
    run.log(asdict(run.progress) | {"exact": run.examine(options.questions)})


def _mix(run: Run, batch: Batch) -> list[Batch]:
    """The batch, and while the run is young one of random tokens to be copied."""
    if run.progress.step >= run.copies:
        return [batch]
    rows, length = batch.tokens.shape
    return [batch, draw_copies(run.random, (rows, length), run.network.shape.n_vocab - 16)]


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--positions", type=float, default=60e6, help="of the whole training")
    parser.add_argument("--minutes", type=float, default=75, help="of this call")
    parser.add_argument("--batch", type=int, default=8192, help="positions of a step")
    parser.add_argument("--falling", type=float, default=0.35, help="last part, of falling rate")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--n-ff", type=int, default=512)
    parser.add_argument("--optimizer", choices=("muon", "adamw"), default="muon")
    parser.add_argument("--questions", type=int, default=200, help="of each group, at the end")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    parser.add_argument("--workers", type=int, default=1, help="processes that draw the data")
    parser.add_argument("--eager", action="store_true", help="do not compile the network")
    parser.add_argument("--branch", action="store_true", help="go on from stable.pt")
    parser.add_argument("--start", type=Path, help="GGUF file whose weights a new run starts from")
    parser.add_argument("--chunk", type=int, default=0, help="of the data, where a new run starts")
    parser.add_argument("--peak", type=float, default=1.0, help="the highest factor of the rates")
    return parser.parse_args()


def main() -> None:
    """Trains as the command line says."""
    options = read_options()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = Shape(n_vocab=len(load_vocabulary().tokens), n_layer=options.layers, n_ff=options.n_ff)
    options.folder.mkdir(parents=True, exist_ok=True)
    run = Run(shape, options.optimizer, options.folder, device, compiled=not options.eager)
    name = "stable" if options.branch else "last"
    if (options.folder / f"{name}.pt").exists():
        run.resume(name)
    elif options.start:
        restore_weights(run.network, options.start)
        run.copies, run.progress.chunk = 0, options.chunk
    train(run, options)


if __name__ == "__main__":
    main()
