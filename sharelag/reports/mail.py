"""The report as the body of an e-mail: what matters of it, with styles in every element and without any script."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

import css_inline

from sharelag.reports.alike import troubles
from sharelag.reports.blocks import environment
from sharelag.reports.ledger import Run

#: A mail is read on a telephone; the report has the rest.
MOST_GROUPS = 12


def mail(title: str, run: Run, told: Mapping[str, Any] | None) -> str:
    """Write the body of a mail.

    Parameters
    ----------
    title : str
    run : Run
    told : mapping or None
        The verdict; None where the report failed before there was one.

    Returns
    -------
    str
        A whole HTML document of less than 100 KB, below which mail programs show all of a mail.
    """
    css = resources.files(__package__).joinpath("templates", "mail.css").read_text("utf-8")
    groups = [] if told is None else told["groups"]
    written = (
        environment()
        .get_template("mail.html.j2")
        .render(
            title=title,
            about=run,
            told=told,
            groups=groups[:MOST_GROUPS],
            troubles=troubles(groups[:MOST_GROUPS], [] if told is None else told["rules"]),
            more=max(len(groups) - MOST_GROUPS, 0),
            css=css,
        )
    )
    # Nothing of ours is anywhere else, and nothing else may be asked for.
    return css_inline.CSSInliner(load_remote_stylesheets=False, keep_style_tags=True).inline(
        written
    )
