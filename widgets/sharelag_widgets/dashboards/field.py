"""Fields with their errors right below them, and what is folded until somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as W  # noqa: N812
import traitlets

from ..bundle import script, style
from ..heard import Heard
from ..view import in_other_forms


class Field(Heard):
    """A text with a label, and what is wrong with it.

    Parameters
    ----------
    entered : callable, optional
        Called when somebody presses Enter there.
    """

    _esm = script("dashboards/field.js")
    _css = style("dashboards/field.css")

    label = traitlets.Unicode("").tag(sync=True)
    value: Any = traitlets.Unicode("").tag(sync=True)
    hint = traitlets.Unicode("").tag(sync=True)  # what no text means
    error = traitlets.Unicode("").tag(sync=True)
    disabled = traitlets.Bool(False).tag(sync=True)
    #: Whether buttons count up and down, and where they begin while there is no text.
    step = traitlets.Bool(False).tag(sync=True)
    start = traitlets.Int(0).tag(sync=True)
    options: traitlets.List[str] = traitlets.List().tag(sync=True)
    now = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self, label: str, *, entered: Callable[[], Any] | None = None, **traits: Any
    ) -> None:
        super().__init__(label=label, **traits)
        self._entered = entered
        self.on_msg(self._answer)

    def _answer(self, _: Any, message: Any, __: Any) -> None:
        if self._entered is not None and message == {"act": "enter"} and not self.disabled:
            self._entered()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        said = self.value if isinstance(self.value, str) else ", ".join(self.value)
        words = f"{self.label}: {said or self.hint}"
        return in_other_forms(super()._repr_mimebundle_(**options), plain=words)


class Chips(Field):
    """Names of which several may be pressed; ``now`` is the one in force."""

    value: Any = traitlets.Tuple().tag(sync=True)

    def __init__(self, label: str, options: Sequence[str], **traits: Any) -> None:
        super().__init__(label, options=list(options), **traits)

    @traitlets.validate("value")
    def _known(self, proposal: Any) -> tuple[str, ...]:
        unknown = [name for name in proposal["value"] if name not in self.options]
        if unknown:
            raise traitlets.TraitError(
                f"unknown choice {unknown[0]!r}: choose some of {', '.join(self.options)}"
            )
        return tuple(name for name in self.options if name in proposal["value"])


class FoldButton(Heard):
    """Shows and hides something by its ``display``, also where no kernel is left."""

    _esm = script("dashboards/fold.js")
    _css = style("dashboards/fold.css")

    label = traitlets.Unicode("").tag(sync=True)
    display = traitlets.Unicode("none").tag(sync=True)


class Fold(W.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Parts that are hidden until somebody asks for them."""

    def __init__(self, label: str, parts: Sequence[W.Widget]) -> None:
        self.button = FoldButton(label=label)
        self.content = W.VBox(list(parts), layout=W.Layout(width="100%", display="none"))
        super().__init__([self.button, self.content], layout=W.Layout(width="100%"))
        ends = (self.button, "display"), (self.content.layout, "display")
        traitlets.link(*ends)
        self._in_the_page = W.jslink(*ends)

    @property
    def is_open(self) -> bool:
        """Whether its parts are shown."""
        return bool(self.button.display != "none")

    @is_open.setter
    def is_open(self, is_open: bool) -> None:
        self.button.display = "" if is_open else "none"

    def close(self) -> None:
        """Let go of the link as well."""
        self._in_the_page.close()
        super().close()
