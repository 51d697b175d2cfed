"""A model whose tokens are drawn elsewhere: a stand-in of an engine, over HTTP, in this process."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from constrained.model.model import Model
from constrained.remote.address import Address, EngineKind, read_address
from constrained.remote.engines.http_client import HttpClient
from constrained.remote.engines.llama_server import LlamaServerSampler, read_facts
from constrained.remote.event_loop import EventLoopThread
from constrained.remote.local_sampler import LocalSampler
from constrained.remote.remote_engine import RemoteEngine
from tests.constrained.remote.stand_ins import Seen, make_stand_in, serving


@contextmanager
def drawn_elsewhere(load: Callable[[], Model]) -> Iterator[Callable[[], Model]]:
    """Gives a function that loads the same models, each in front of a llama-server whose tokens the
    engine of the model draws. The servers end with this; whoever loads a model closes it."""
    with ExitStack() as stack:

        def load_remote() -> Model:
            model = load()  # nothing of it runs; its engine is closed with the sampler
            sampler = LocalSampler(model.engine)  # type: ignore[arg-type]
            stack.callback(lambda: asyncio.run(sampler.close()))
            app = make_stand_in(EngineKind.LLAMA_SERVER, sampler, Seen())
            address = read_address(f"llama-server://{stack.enter_context(serving(app))}")
            return Model(
                connect(address, sampler),
                model.compiler.template,
                sampling=model.sampling,
                notices=model.notices,
            )

        yield load_remote


def connect(address: Address, sampler: LocalSampler) -> RemoteEngine:
    """The engine at a llama-server of this vocabulary."""
    loop = EventLoopThread("remote")
    client = HttpClient(address)
    facts = loop.run(read_facts(client))
    return RemoteEngine(LlamaServerSampler(client, sampler.vocabulary, facts), loop)
