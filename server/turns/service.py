"""A served model, with the data that the server keeps between requests."""

from dataclasses import dataclass, field

from constrained.model.loaded_model import LoadedModel
from server.http.ids import CallIds
from server.settings import Settings
from server.turns.observers import Observers
from server.turns.stable_prompts import ConversationDates


@dataclass(frozen=True)
class Service:
    """A model that is served, and the settings of the server: the ids that the model wrote in its
    calls, when conversations began, who watches its requests, and the name of the model in the
    API."""

    model: LoadedModel
    settings: Settings
    call_ids: CallIds = field(default_factory=CallIds)
    dates: ConversationDates = field(default_factory=ConversationDates)
    observers: Observers = field(default_factory=Observers)
    name: str = "demo"
