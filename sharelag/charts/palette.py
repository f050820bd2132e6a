"""Colours and patterns and their meanings; `palette.js` has those of the widgets.

Colour never carries a meaning alone: states have patterns, lines have dashes and symbols. The four
states of KIP-932 also differ in lightness, so they are distinguishable for every kind of colour
vision. Remaining work stands out: unread is solid, offsets that wait for redelivery are warm, and
finished ones fade into the background.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sharelag.errors import InputError
from sharelag.model import DeliveryState
from sharelag.tables.level import CRITICAL, NOTE, WARNING

Theme: TypeAlias = Literal["light", "dark"]


@dataclass(frozen=True)
class Kind:
    """The look of a kind of offsets."""

    words: str
    colours: str  # in the light and the dark theme
    pattern: str  # plotly's name
    means: str
    size: int = 7
    solidity: float = 0.22

    @property
    def fill(self) -> dict[str, str]:
        """The colour in each theme."""
        return dict(zip(("light", "dark"), self.colours.split(), strict=True))


#: Kinds of offsets, by the widgets' name.
KINDS = {
    "available": Kind(
        "Available",
        "#E69F00 #E69F00",
        "-",
        "released or timed out, waiting for another delivery",
        11,
        0.1,
    ),
    "acquired": Kind(
        "Acquired", "#A8502D #B4603C", "/", "locked by a member; never persisted by Kafka"
    ),
    "acknowledged": Kind("Acknowledged", "#CFE6DB #1F3B33", ".", "done"),
    "archiving": Kind("Archiving", "#B25D8C #C77BA5", "-", "on its way to a dead letter queue"),
    "archived": Kind(
        "Archived", "#4A1A5C #7A3F93", "x", "rejected, at the delivery limit, or a gap"
    ),
    "tx_pending": Kind(
        "Transaction pending", "#8C7BD6 #9B8CE0", "|", "acknowledged in an open transaction"
    ),
    "unknown": Kind(
        "Unknown",
        "#8A93A3 #7C8698",
        "\\",
        "acquired, or never persisted: the topic does not say which",
    ),
    "unread": Kind(
        "Unread",
        "#0072B2 #56B4E9",
        "",
        "beyond the window: never delivered, as far as the topic shows",
    ),
    "finished": Kind(
        "Complete",
        "#BFDCCF #2B4F44",
        ".",
        "acknowledged or archived; the start offset has not passed it yet",
        11,
    ),
    "other": Kind("Another state", "#D43D2A #E0604A", "+", "of a newer Kafka than sharelag knows"),
    "window": Kind(
        "In the window", "#C9CFD8 #454C57", "+", "this table has no state of each offset"
    ),
}

#: An available offset whose next delivery is its last: at the limit, Kafka archives it.
LAST = Kind(
    "Next delivery is the last",
    "#B3001B #FF4D5E",
    "-",
    "one delivery below the limit: if it fails again, Kafka archives the record",
)

#: Colours of a number from 0 to the maximum, in even steps of lightness.
LADDERS = {
    "light": ("#E6EAF0", "#C6D8EA", "#9ABAD9", "#6E98C4", "#3F6CA3", "#22427A", "#1B1F4B"),
    "dark": ("#2A2F38", "#2F4468", "#3B5B8A", "#4D78A9", "#74A0C8", "#A6C8E2", "#E6F2FB"),
}

#: Looks of items side by side, such as share partitions: a colour, a dash and a symbol each.
_LINE_COLOURS = {
    "light": ("#3F6CA3", "#B25900", "#00785A", "#4A1A5C", "#A33B20", "#565F6F"),
    "dark": ("#74A0C8", "#E69F00", "#3FBF97", "#C77BA5", "#F08A6C", "#C3CBD6"),
}
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star")
#: Maximum number of distinguishable lines.
MOST_LINES = len(_DASHES)

#: Background and text colours, as in the widgets.
PAPER = {
    theme: dict(zip(("paper", "ink", "soft", "line", "head"), colours.split(), strict=True))
    for theme, colours in (
        ("light", "#ffffff #1c2330 #565f6f #cfd5de #f3f5f8"),
        ("dark", "#15181d #e6e9ef #a6b0c0 #363d49 #1e232b"),
    )
}
WARN = {"light": "#8A3200", "dark": "#FFB37A"}

#: Colours of the severities of causes.
SEVERITIES = {
    CRITICAL: Kind("critical", "#A33B20 #C05A3E", "x", "records are lost, or nothing moves"),
    WARNING: Kind("warning", "#E69F00 #E69F00", "/", "lag grows, or will"),
    NOTE: Kind("note", "#6E98C4 #4D78A9", "", "good to know"),
}


def state_kind(state: int) -> Kind:
    """Return the kind of a delivery state by its number on the wire."""
    known = {int(one): one.name.lower() for one in DeliveryState}
    return KINDS[known.get(state, "other")]


def marker(kind: Kind, theme: Theme) -> dict[str, Any]:
    """Return the marker of a bar: fill, pattern, and an outline visible in both themes."""
    fill = kind.fill[check_theme(theme)]
    ink = "#000000" if luminance(fill) > 0.22 else "#ffffff"
    pattern = {"shape": kind.pattern, "fillmode": "overlay", "fgcolor": ink, "fgopacity": 0.55}
    pattern |= {"size": kind.size, "solidity": kind.solidity}
    return {
        "color": fill,
        "pattern": pattern,
        "line": {"color": PAPER[theme]["soft"], "width": 0.8},
    }


def line(number: int, theme: Theme) -> dict[str, Any]:
    """Return the look of the n-th line as arguments of a scatter trace."""
    colour = _LINE_COLOURS[check_theme(theme)][number % MOST_LINES]
    return {
        "line": {"color": colour, "dash": _DASHES[number % MOST_LINES], "width": 2},
        "marker": {"color": colour, "symbol": _SYMBOLS[number % MOST_LINES], "size": 7},
    }


def ladder(theme: Theme) -> list[tuple[float, str]]:
    """Return the ladder as a colour scale."""
    steps = LADDERS[check_theme(theme)]
    return [(n / (len(steps) - 1), colour) for n, colour in enumerate(steps)]


def check_theme(theme: Theme) -> Theme:
    """Return the theme; raise `InputError` if it does not exist."""
    if theme not in PAPER:
        raise InputError(f"unknown theme {theme!r}: choose one of {', '.join(PAPER)}")
    return theme


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb`` (WCAG 2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def template(theme: Theme) -> dict[str, Any]:
    """Return the look of all figures in a theme as a plotly template."""
    colours = PAPER[check_theme(theme)]
    axis = {
        "gridcolor": colours["line"],
        "linecolor": colours["soft"],
        "zerolinecolor": colours["soft"],
        "tickcolor": colours["soft"],
        "title": {"font": {"color": colours["soft"], "size": 12}, "standoff": 8},
        "automargin": True,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        # 10,000 instead of 10k, as in tables.
        "separatethousands": True,
        "minexponent": 6,
    }
    hover = {"bgcolor": colours["head"], "bordercolor": colours["soft"], "align": "left"}
    return {
        "layout": {
            "paper_bgcolor": colours["paper"],
            "plot_bgcolor": colours["paper"],
            "font": {
                "family": 'system-ui, "Segoe UI", Roboto, sans-serif',
                "size": 12,
                "color": colours["ink"],
            },
            "colorway": list(_LINE_COLOURS[theme]),
            "title": {
                "x": 0,
                "xref": "container",
                "xanchor": "left",
                "pad": {"l": 14},
                "font": {"size": 15},
            },
            "hoverlabel": hover | {"font": {"color": colours["ink"], "size": 12}, "namelength": -1},
            "legend": {
                "orientation": "h",
                "traceorder": "normal",
                "x": 0,
                "xanchor": "left",
                "y": 1,
                "yanchor": "bottom",
                "font": {"size": 12},
            },
            "xaxis": axis,
            "yaxis": axis,
            "bargap": 0.35,
            "modebar": {
                "bgcolor": "rgba(0,0,0,0)",
                "color": colours["soft"],
                "activecolor": colours["ink"],
            },
        }
    }
