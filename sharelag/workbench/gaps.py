"""What is not known of everything that was gathered, in sentences."""

from __future__ import annotations

from sharelag.metrics.evidence import Evidence
from sharelag.metrics.loads import count_stateless
from sharelag.tables.gaps import of_missing, of_rejected, of_settings
from sharelag.wire.placement import missing_in_words
from sharelag.workbench.membership import NO_RECORDS, leaderless


def of_evidence(
    evidence: Evidence, is_past: bool, generation: int | None = None
) -> tuple[str, ...]:
    """What is not known of everything that was gathered.

    Parameters
    ----------
    evidence : Evidence
    is_past : bool
        Whether it is of another moment than the last.
    generation : int, optional
        As those of which design records were tried.
    """
    said = list(of_rejected(evidence.rejected, generation))
    said += of_groups(evidence)
    said += of_settings(evidence.settings)
    if is_past:
        said.append(
            "settings, retention and last stable offsets of that moment; those of now are taken"
        )
    said += of_state_topic(evidence)
    return tuple(said)


def of_state_topic(evidence: Evidence) -> tuple[str, ...]:
    """Which records of the state topic are missing."""
    if evidence.lag_only:
        return of_missing(evidence.gaps.num_rows, 0)
    stateless = count_stateless(evidence.groups, evidence.windows)
    return of_missing(evidence.gaps.num_rows, stateless, missing_in_words(evidence.windows))


def of_groups(evidence: Evidence) -> tuple[str, ...]:
    """What is not known of groups and members without records, and of ends without leaders."""
    if evidence.lag_only:  # which asks for neither
        return ()
    unread = (NO_RECORDS,) if evidence.lag.num_rows and not evidence.groups.num_rows else ()
    return unread + leaderless(evidence.brokers)
