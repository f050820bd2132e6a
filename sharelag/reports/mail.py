"""The body of an e-mail: the essentials of a report, with inline styles and no scripts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

import css_inline

from sharelag.reports.blocks import environment
from sharelag.reports.findings import group_findings
from sharelag.reports.ledger import Run

#: A mail is read on a phone; the report has the rest.
MOST_GROUPS = 12


def mail(title: str, run: Run, outcome: Mapping[str, Any] | None) -> str:
    """Write the body of a mail.

    Parameters
    ----------
    title : str
    run : Run
    outcome : mapping or None
        The verdict; None if the report failed before there was one.

    Returns
    -------
    str
        An HTML document of less than 100 KB, so that mail programs do not clip it.
    """
    css = resources.files(__package__).joinpath("templates", "mail.css").read_text("utf-8")
    groups = [] if outcome is None else outcome["groups"]
    written = (
        environment()
        .get_template("mail.html.j2")
        .render(
            title=title,
            about=run,
            outcome=outcome,
            groups=groups[:MOST_GROUPS],
            findings=group_findings(
                groups[:MOST_GROUPS], [] if outcome is None else outcome["rules"]
            ),
            more=max(len(groups) - MOST_GROUPS, 0),
            css=css,
        )
    )
    # All styles are in the document, and nothing may be loaded from elsewhere.
    return css_inline.CSSInliner(load_remote_stylesheets=False, keep_style_tags=True).inline(
        written
    )
