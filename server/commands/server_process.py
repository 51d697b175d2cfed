"""The process of `constrained serve`: its models, its socket, and uvicorn until a signal comes."""

import argparse
import gc
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from constrained.cli import options as shared
from constrained.cli.terminal.exit_codes import ExitCode, find_code
from constrained.cli.terminal.output import print_error
from constrained.engine.gguf.contents import ModelPurpose, read_purpose
from constrained.engine.host import available_memory, bound_heap, keep_returning
from constrained.model.loaded_model import LoadedModel
from constrained.model_files import embedded
from constrained.model_files.local_models import PACKAGE, LocalModel, measure_files
from constrained.model_files.sources import list_known
from constrained.remote.address import is_address
from grammars.limits.byte_cache import MIB, bound_caches
from server.app import make_app
from server.commands.model_files import find_offers, load_model, name_first
from server.http.listening import (
    ACCEPTED,
    DELIVERY_SECONDS,
    DrainingServer,
    find_max_connections,
    make_protocol,
    open_socket,
    write_address,
)
from server.http.server_end import end_process
from server.models.served_models import ModelBounds
from server.models.source import ModelSource
from server.settings import Settings

if TYPE_CHECKING:
    from server.models.shared_store import SharedStore

MAX_NAMED = 5  # models of the cache
SWITCH_SECONDS = 0.0005
LOG = logging.getLogger("constrained.server")


def run_server(options: argparse.Namespace, settings: Settings) -> int:
    """Serves until a signal comes, or a model cannot be loaded that the server starts with; returns
    the exit code."""
    tune_process(options)
    failures = list[Exception]()

    def stop(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    sources = find_models(options)
    listening = open_socket(options.host, options.port)
    address = f"http://{write_address(options.host, listening.getsockname()[1])}"
    LOG.info("listening on %s%s", address, _describe_start(sources))
    LOG.info("chat: open %s/ in a browser", find_page(address))
    app = make_app(
        sources,
        settings,
        _read_bounds(options),
        stop=stop,
        address=address,
        store=find_store(options),
    )

    def drain() -> None:
        # There are no requests while the server starts.
        seconds = settings.drain_seconds if server.started else 0
        app.state.models.drain(seconds)
        end_process(seconds)

    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_level=options.log_level,
        log_config=None,  # its records go where ours go, see `set_up_log`
        backlog=ACCEPTED,
        http=make_protocol(settings.idle_seconds, find_max_connections()),
        # uvicorn's 5 s are those after which httpx, and with it the SDKs, drop an idle connection:
        # a request that is sent just then would be lost.
        timeout_keep_alive=ceil(settings.idle_seconds),
        timeout_graceful_shutdown=ceil(settings.drain_seconds) + DELIVERY_SECONDS,
        ws="none",  # whatever packages are there
        server_header=False,
    )
    server = DrainingServer(config, drain)
    # uvicorn sends itself the signal once more when it has stopped. Whoever watches the process,
    # systemd for one, takes an end by this signal for a clean one, and no exit code.
    end_by_signal()
    server.run([listening])
    if failures:
        print_error(str(failures[0]))
        return find_code(failures[0])
    return ExitCode.DONE


def find_page(address: str) -> str:
    """Returns where a browser on this machine finds the server: it cannot open the address of all
    interfaces."""
    for host in ("0.0.0.0", "[::]"):
        address = address.replace(f"//{host}:", "//localhost:")
    return address


def end_by_signal() -> None:
    """Makes the process end at SIGTERM and SIGINT, without waiting for threads that are still busy,
    unless it was started with that signal ignored. Only the main thread can."""
    for number in (signal.SIGTERM, signal.SIGINT):
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def tune_process(options: argparse.Namespace) -> None:
    bound_heap()
    keep_returning()
    if options.cache_memory is not None:
        bound_caches(options.cache_memory * MIB)
    # A thread that compiles a large schema lets others run after this time, not after 5 ms: a
    # request passes from thread to thread dozens of times.
    sys.setswitchinterval(SWITCH_SECONDS)


def _read_bounds(options: argparse.Namespace) -> ModelBounds:
    memory = available_memory()
    if options.models_memory is not None:
        memory = options.models_memory << 20
    idle_seconds = options.sleep_idle_seconds
    if idle_seconds < 0:
        idle_seconds = None
    return ModelBounds(count=options.models_max, memory=memory, idle_seconds=idle_seconds)


def find_store(options: argparse.Namespace) -> "SharedStore | None":
    if options.store is None:
        return None
    from server.store.store_address import open_store

    return open_store(options.store)


def find_models(options: argparse.Namespace) -> list[ModelSource]:
    """Returns the models of the options. The first is that of -m or -hf, with which the server
    starts; the demo model if there is none."""
    others = [offer.make_source() for offer in find_offers(options)]
    if others and not options.model and not options.hf_repo:
        return others

    def load() -> LoadedModel:
        model = load_model(options)
        gc.collect()
        gc.freeze()  # modules and loaded data stay, so full collections need not look at them
        return model

    path = shared.find_model(options)
    if path is None:
        other_purposes = (ModelPurpose.EMBEDDINGS, ModelPurpose.RANKING)
        known = [one for one in list_known() if one.program != PACKAGE]
        known = [one for one in known if read_purpose(one.path) not in other_purposes]
        if known:
            LOG.info("%s", describe_known(known))
    named = name_first(options, path)
    path = path or str(embedded.PATH)
    first = ModelSource(
        named.name,
        load,
        named.aliases,
        file_bytes=measure_files(path),
        path=None if is_address(path) else Path(path),
        preloaded=True,
    )
    return [first, *(source for source in others if source.name != named.name)]


def describe_known(models: Sequence[LocalModel]) -> str:
    options = [f"-m {model.source}" for model in models[:MAX_NAMED]]
    rest = len(models) - len(options)
    if rest:
        options.append(f"{rest} more (constrained models)")
    return f"serving the demo model; to serve a downloaded one: {', '.join(options)}"


def _describe_start(sources: list[ModelSource]) -> str:
    if any(source.preloaded for source in sources):
        return ", loading the model"
    names = ", ".join(source.name for source in sources)
    return f", with models that are loaded on demand: {names}"
