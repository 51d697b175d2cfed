"""A served model, with the data that the server keeps between requests."""

from dataclasses import dataclass, field

from constrained.model.loaded_model import LoadedModel
from server.http.ids import CallIds
from server.http.metrics import Counters
from server.http.server_end import ServerEnd
from server.observe.prefix_watch import PrefixWatch
from server.observe.telemetry import Telemetry
from server.observe.trace_file import TraceFile
from server.settings import Settings
from server.turns.stable_prompts import ConversationDates


@dataclass(frozen=True)
class Service:
    """A model that is served, and the settings of the server.

    Args:
        model: the model.
        settings: of the server.
        call_ids: the ids that the model wrote in its calls.
        dates: when conversations began.
        prefixes: the parts of the last prompts, to find out why a cache was of no use.
        counters: the figures of `/metrics`.
        telemetry: exports a span for each reply; None: no spans.
        traces: writes a trace of each reply; None: no traces.
        name: the name of the model in the API.
        end: when the requests of the server have to be over.
    """

    model: LoadedModel
    settings: Settings
    call_ids: CallIds = field(default_factory=CallIds)
    dates: ConversationDates = field(default_factory=ConversationDates)
    prefixes: PrefixWatch = field(default_factory=PrefixWatch)
    counters: Counters = field(default_factory=Counters)
    telemetry: Telemetry | None = None
    traces: TraceFile | None = None
    name: str = "demo"
    end: ServerEnd = field(default_factory=ServerEnd)
