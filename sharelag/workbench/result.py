"""An answer that shows itself: a table with its moment, meanings, and what is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, overload

import pyarrow as pa

from sharelag.errors import InputError, SetupError, unknown_column, unknown_name
from sharelag.plugins import load_plugin
from sharelag.tables import render
from sharelag.tables.presentation import GroupSummary, Presentation
from sharelag.tables.table import View as Columns
from sharelag.tables.words import moment

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure
    from pyspark.sql import DataFrame, SparkSession

#: The engine of what no cluster did.
SIMULATED = "what-if"
#: Fields of a result that its presentation has, too.
_SHARED = [one.name for one in fields(Presentation) if one.name not in ("when", "source", "charts")]
#: Makes a figure in a theme.
Draw = Callable[[Any], Any]


def chart(name: str, *about: Any, **looks: Any) -> Draw:
    """Return a function that draws a chart of `sharelag.charts` in a theme.

    Nothing is imported or read before it is drawn: ``name`` is that of ``NAME_records`` and
    ``NAME_figure``, ``about`` are the tables that the records are of, and ``looks`` what the figure
    takes beside them, or functions that read these.
    """

    def draw(theme: str) -> Any:
        from sharelag import charts

        records = getattr(charts, f"{name}_records")(*map(_read, about))
        beside = {key: _read(one) for key, one in looks.items()}
        return getattr(charts, f"{name}_figure")(records, theme, **beside)

    return draw


def _read(given: Any) -> Any:
    return given() if callable(given) else given


@dataclass(frozen=True, eq=False)
class Result:
    """One answer: a table with its moment, units and gaps, in a notebook and as text.

    Attributes
    ----------
    title
        The question.
    table
        All rows, in a schema of `sharelag.schemas`; of a long history the latest, which `notes`
        tell.
    columns
        Heading to column, as shown.
    as_of
        The moment that it describes; None: simulated, or not known.
    source
        Where the records come from.
    unknown
        What is not known, and why: sentences.
    lacks
        Those of ``unknown`` that make the answer incomplete: commands end with 3.
    notes
        What else to know: sentences.
    rejected, repeated
        Records that could not be decoded, and that repeat another one; both are left out.
    order
        The column whose largest values are shown when not all rows are.
    summaries
        Groups and causes in words, which are shown instead of the table.
    charts
        What `figure` can draw, by name.
    means
        What columns mean, where that differs from `sharelag.tables.declared`.
    best, spans, more
        Cells in bold, bars in a column, and a longer table: as a `Presentation` has them.
    frame
        Makes the DataFrame of all rows, where ``table`` may have some of them only.
    session
        Gives the Spark session that goes with it.
    """

    title: str
    table: pa.Table
    columns: Mapping[str, str]
    as_of: datetime | None
    source: str
    engine: str = "local"
    unknown: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rejected: int = 0
    repeated: int = 0
    order: str = ""
    summaries: tuple[GroupSummary, ...] = ()
    charts: Mapping[str, Draw] = field(default_factory=dict)
    means: Mapping[str, str] = field(default_factory=dict)
    best: frozenset[tuple[int, str]] = frozenset()
    spans: Mapping[str, Sequence[tuple[float, float, float] | None]] = field(default_factory=dict)
    more: Presentation | None = None
    frame: Callable[[], DataFrame] | None = None
    session: Callable[[], SparkSession] | None = None

    def answer(
        self,
        title: str,
        table: pa.Table,
        view: Columns,
        order: str = "",
        *,
        notes: Iterable[str] = (),
        unknown: Iterable[str] = (),
        lacks: Iterable[str] = (),
        **more: Any,
    ) -> Result:
        """Return an answer with a ``title``, a ``table`` in a ``view``, and an ``order``.

        It comes from where this one does; ``notes``, ``unknown`` and ``lacks`` stand beside those
        of this one, and ``more`` are its other attributes.
        """
        return replace(
            self,
            title=title,
            table=table,
            columns=view.columns,
            means=view.means,
            order=order,
            notes=(*self.notes, *notes),
            unknown=tuple(dict.fromkeys((*unknown, *self.unknown))),
            lacks=(*self.lacks, *lacks),
            **more,
        )

    @classmethod
    def of(cls, shown: Presentation) -> Result:
        """Return a result of what is shown of a simulation, or of anything else of no cluster."""
        shared = {name: getattr(shown, name) for name in _SHARED}
        return cls(as_of=None, source=shown.source, engine=SIMULATED, **shared)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows of ``table`` as pandas holds them."""
        frame: pd.DataFrame = self.table.to_pandas(date_as_object=False)
        return frame

    @property
    def df(self) -> pd.DataFrame:
        """The rows of ``table`` as a new pandas DataFrame; see `to_pandas`."""
        return self.to_pandas()

    @overload
    def __getitem__(self, column: str) -> pd.Series[Any]: ...

    @overload
    def __getitem__(self, column: list[str]) -> pd.DataFrame: ...

    def __getitem__(self, column: str | list[str]) -> pd.Series[Any] | pd.DataFrame:
        """Return a column of ``table`` as pandas holds it, or several: ``bench.lag()["lag"]``.

        Raises
        ------
        InputError
            There is no such column.
        """
        wanted = column if isinstance(column, list) else [column]
        for name in wanted:
            if name not in self:
                raise InputError(unknown_column(name, self, self.title))
        frame: pd.DataFrame = self.table.select(wanted).to_pandas(date_as_object=False)
        return frame if isinstance(column, list) else frame[column]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the columns, as pandas does."""
        return iter(self.table.schema.names)

    def __contains__(self, column: object) -> bool:
        return column in self.table.schema.names

    if not TYPE_CHECKING:  # else every name would be known

        def __getattr__(self, name: str) -> Any:
            said = unknown_name(name, dir(type(self)), "a Result")
            if not name.startswith("_") and name in self:
                said = f"a Result has no attribute {name!r}: it is a column, result[{name!r}]"
            raise AttributeError(said)

    def plot(self, kind: str | None = None, **given: Any) -> View:
        """Draw it in the colours of the page, light or dark, and as wide as the page is.

        Parameters
        ----------
        kind : str, optional
            As for `figure`, which gives the same as a plotly figure.
        **given
            As for `sharelag_widgets.PlotView`, such as ``selection``.

        Raises
        ------
        InputError
            There is no chart of this kind.
        SetupError
            The widgets are not installed.
        """
        shown: View = load_view("PlotView").of(self, kind, **given)
        return shown

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """All rows as a Spark DataFrame, those of a long history too.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession, optional
            Default: the one that the answer came from, the active one, or one for this machine.
        """
        if self.frame is not None:
            return self.frame()
        from sharelag.inputs.spark import session

        spark = spark or (session if self.session is None else self.session)()
        from sharelag.inputs.spark.frames import frame_of  # only now: without pyspark it cannot be

        return frame_of(spark, self.table)

    def figure(self, kind: str | None = None, theme: str = "light") -> Figure:
        """Draw a chart of the answer.

        Parameters
        ----------
        kind : str, optional
            One of `charts`. Default: the first.
        theme : {"light", "dark"}

        Raises
        ------
        InputError
            There is no such chart of the answer.
        """
        name = next(iter(self.charts), "") if kind is None else kind
        if name not in self.charts:
            known = f"there is {', '.join(self.charts) or 'none; its table is .table'}"
            raise InputError(f"there is no chart {name!r} of {self.title!r}: {known}")
        return self.charts[name](theme)

    def presentation(self) -> Presentation:
        """Return what people are shown of it."""
        simulated = self.engine == SIMULATED
        return Presentation(
            when="simulated" if simulated else f"as of {moment(self.as_of)}",
            source=self.source if simulated else f"{self.source}, {self.engine} engine",
            charts=tuple(self.charts),
            **{name: getattr(self, name) for name in _SHARED},
        )

    def to_html(self, most: int = render.MOST) -> str:
        """Return the result as a fragment of HTML, with at most so many rows."""
        return render.as_html(self.presentation(), most)

    def to_text(self, most: int = render.MOST) -> str:
        """Return the same as plain text."""
        return render.as_text(self.presentation(), most)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()


#: What to do where nothing can be shown that lives in a page.
NO_WIDGETS = "the widgets are not installed here: pip install 'sharelag[notebook]'"


class View(Protocol):
    """A widget that shows rows: what all have; `sharelag_widgets` says what else each has."""

    selection: Any  # what is picked, here or in a linked view

    def summary(self) -> str:
        """Return what is shown as text."""

    def close(self) -> None:
        """Let go of the selection, which may outlive the view."""

    def __getattr__(self, name: str) -> Any: ...


class Strip(View, Protocol):
    """`sharelag_widgets.WindowStrip`: a window offset by offset, at every moment."""

    rows: pa.Table  # the moments; may be set

    @property
    def shown_key(self) -> tuple[Any, ...] | None:
        """The key of the share partition that is shown."""


class Dashboard(View, Protocol):
    """`sharelag_widgets.dashboards.Now`: all groups, and one of them in detail."""

    group: str | None  # the one that is shown; may be set

    def refresh(self) -> None:
        """Read again, and wait for it."""


def load_view(name: str) -> Any:
    """Return the class of a view: ``Now``, ``PlotView`` or ``WindowStrip``."""
    try:
        plugin = load_plugin("view", name, is_ours=False)
    except InputError as error:
        if isinstance(error.__cause__, ImportError):
            raise SetupError(NO_WIDGETS) from error.__cause__
        raise
    if plugin is None:
        raise SetupError(NO_WIDGETS)
    return plugin.value
