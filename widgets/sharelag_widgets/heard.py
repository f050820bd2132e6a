"""The base of every widget that has its own JavaScript: the page finds its model by an id."""

from __future__ import annotations

import uuid
from typing import Any

import anywidget
import traitlets


class Heard(anywidget.AnyWidget):
    """A widget whose view asks for the state again where messages were lost.

    anywidget hands its views no model that they could ask with, but their page knows models by
    their ids (`shared/hearing.js`). What people change there comes as a message as well, which
    nothing sent later overtakes.
    """

    own_id = traitlets.Unicode("").tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        own = uuid.uuid4().hex
        super().__init__(model_id=own, own_id=own, **traits)
        self.on_msg(self._change)

    def _change(self, _: Any, message: Any, __: Any) -> None:
        if isinstance(message, dict) and "changed" in message:
            self.set_state(message["changed"])
