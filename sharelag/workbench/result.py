"""An answer that renders itself: a table with its moment, meanings and unknown values."""

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

#: The engine of simulated results.
SIMULATED = "what-if"
#: Fields that a result shares with its presentation.
_SHARED = [one.name for one in fields(Presentation) if one.name not in ("when", "source", "charts")]
#: A function from a theme to a figure.
Draw = Callable[[Any], Any]


def chart(name: str, *about: Any, **looks: Any) -> Draw:
    """Return a function that draws a chart of `sharelag.charts` in a theme.

    Imports and reads are deferred until then. ``name`` stands for ``NAME_records`` and
    ``NAME_figure``, ``about`` are the arguments of the former, and ``looks`` the options of the
    latter, as values or functions that read them.
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
        All rows, in a schema of `sharelag.schemas`; for a long history the latest, as `notes`
        say.
    columns
        Heading to column, as shown.
    as_of
        The moment of the answer; None if simulated or unknown.
    source
        The origin of the records.
    unknown
        Sentences: unknown values, and why.
    lacks
        Those of ``unknown`` that make the answer incomplete: commands exit with 3.
    notes
        Further sentences.
    rejected, repeated
        Numbers of undecodable and of duplicate records; both are left out.
    order
        The column whose largest values are shown if not all rows fit.
    summaries
        Groups and causes in words, shown instead of the table.
    charts
        The charts that `figure` can draw, by name.
    means
        Meanings of columns that differ from `sharelag.tables.declared`.
    best, spans, more
        Cells in bold, bars in a column, and a longer table, as in `Presentation`.
    frame
        Function that returns all rows as a DataFrame, if ``table`` may have only some of them.
    session
        Function that returns the Spark session of the answer.
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

        It has the source of this one; ``notes``, ``unknown`` and ``lacks`` are added to those of
        this one, and ``more`` are other attributes.
        """
        if not table.num_rows:  # its moment is that of this one
            more.pop("as_of", None)
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
        """Return a presentation, such as that of a simulation, as a result without a cluster."""
        shared = {name: getattr(shown, name) for name in _SHARED}
        return cls(as_of=None, source=shown.source, engine=SIMULATED, **shared)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows of ``table`` as a pandas DataFrame."""
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
        """Return a column of ``table`` as a pandas Series, or several: ``bench.lag()["lag"]``.

        Raises
        ------
        InputError
            There is no such column.
        """
        names = column if isinstance(column, list) else [column]
        for name in names:
            if name not in self:
                raise InputError(unknown_column(name, self, self.title))
        frame: pd.DataFrame = self.table.select(names).to_pandas(date_as_object=False)
        return frame if isinstance(column, list) else frame[column]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the columns, as pandas does."""
        return iter(self.table.schema.names)

    def __contains__(self, column: object) -> bool:
        return column in self.table.schema.names

    if not TYPE_CHECKING:  # else every name would be known

        def __getattr__(self, name: str) -> Any:
            message = unknown_name(name, dir(type(self)), "a Result")
            if not name.startswith("_") and name in self:
                message = f"a Result has no attribute {name!r}: it is a column, result[{name!r}]"
            raise AttributeError(message)

    def plot(self, kind: str | None = None, **given: Any) -> View:
        """Draw a chart in the colours of the page, light or dark, at its full width.

        Parameters
        ----------
        kind : str, optional
            As for `figure`, which returns the same as a plotly figure.
        **given
            As for `sharelag_widgets.PlotView`, such as ``selection``.

        Raises
        ------
        InputError
            The answer has no chart of this kind.
        SetupError
            The widgets are not installed.
        """
        shown: View = load_view("PlotView").of(self, kind, **given)
        return shown

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return all rows as a Spark DataFrame, including those of a long history.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession, optional
            Default: the session of the answer, the active one, or a local one.
        """
        if self.frame is not None:
            return self.frame()
        from sharelag.inputs.spark import session

        spark = spark or (session if self.session is None else self.session)()
        from sharelag.inputs.spark.frames import frame_of  # imported here, as it needs pyspark

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
            The answer has no such chart.
        """
        name = next(iter(self.charts), "") if kind is None else kind
        if name not in self.charts:
            known = f"there is {', '.join(self.charts) or 'none; its table is .table'}"
            raise InputError(f"there is no chart {name!r} of {self.title!r}: {known}")
        return self.charts[name](theme)

    def presentation(self) -> Presentation:
        """Return the answer as it is displayed."""
        simulated = self.engine == SIMULATED
        return Presentation(
            when="simulated" if simulated else f"as of {moment(self.as_of)}",
            source=self.source if simulated else f"{self.source}, {self.engine} engine",
            charts=tuple(self.charts),
            **{name: getattr(self, name) for name in _SHARED},
        )

    def to_html(self, most: int = render.MOST) -> str:
        """Return the result as an HTML fragment, with at most ``most`` rows."""
        return render.as_html(self.presentation(), most)

    def to_text(self, most: int = render.MOST) -> str:
        """Return the result as plain text, with at most ``most`` rows."""
        return render.as_text(self.presentation(), most)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()


#: The advice where widgets cannot be displayed.
NO_WIDGETS = "the widgets are not installed here: pip install 'sharelag[notebook]'"


class View(Protocol):
    """The interface that all widgets of `sharelag_widgets` share."""

    selection: Any  # picked here or in a linked view

    def summary(self) -> str:
        """Return a textual summary of the view."""

    def close(self) -> None:
        """Detach from the selection, which may outlive the view."""

    def __getattr__(self, name: str) -> Any: ...


class Strip(View, Protocol):
    """`sharelag_widgets.WindowStrip`: a window offset by offset, at every moment."""

    rows: pa.Table  # windows at all moments; may be set

    @property
    def shown_key(self) -> tuple[Any, ...] | None:
        """The key of the share partition that is shown."""


class Dashboard(View, Protocol):
    """`sharelag_widgets.dashboards.Now`: all groups, and one of them in detail."""

    group: str | None  # the group shown; may be set

    def refresh(self) -> None:
        """Read again, and wait until all is shown."""


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
