"""A model whose tokens are sampled elsewhere: by the stand-in of an engine, over HTTP."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from constrained.agent.model import Model
from constrained.remote.address import EngineKind, read_address
from constrained.remote.engines.http_client import STALL_SECONDS, HttpClient
from constrained.remote.engines.llama_server import LlamaServerSampler, read_facts
from constrained.remote.event_loop import EventLoopThread
from constrained.remote.remote_engine import RemoteEngine
from tests.constrained.remote.faulty_proxy import Faults, make_proxy
from tests.constrained.remote.local_sampler import LocalSampler
from tests.constrained.remote.stand_in_parts import Seen
from tests.constrained.remote.stand_ins import make_stand_in, serving


@contextmanager
def sampled_elsewhere(
    load: Callable[[], Model],
    *,
    faults: Faults | None = None,
    stall_seconds: float = STALL_SECONDS,
) -> Iterator[Callable[[], Model]]:
    """Gives a function that loads the same models, each in front of a llama-server whose tokens the
    engine of the model draws. The servers end with this; whoever loads a model closes it.

    Args:
        load: gives a model.
        faults: of a proxy in between; None: there is no proxy.
        stall_seconds: so long may the llama-server be silent.
    """
    with ExitStack() as stack:

        def load_remote() -> Model:
            model = load()  # nothing of it runs; its engine is closed with the sampler
            sampler = LocalSampler(model.engine)  # type: ignore[arg-type]
            stack.callback(lambda: asyncio.run(sampler.close()))
            app = make_stand_in(EngineKind.LLAMA_SERVER, sampler, Seen())
            host = stack.enter_context(serving(app))
            if faults is not None:
                host = stack.enter_context(serving(make_proxy(f"http://{host}", faults)))
            client = HttpClient(read_address(f"llama-server://{host}"), stall_seconds=stall_seconds)
            return Model(
                connect(client, sampler),
                model.compiler.template,
                sampling=model.sampling,
                notices=model.notices,
            )

        yield load_remote


def connect(client: HttpClient, sampler: LocalSampler) -> RemoteEngine:
    """The engine at a llama-server of this vocabulary."""
    loop = EventLoopThread("remote")
    facts = loop.run(read_facts(client))
    return RemoteEngine(LlamaServerSampler(client, sampler.vocabulary, facts), loop)
