"""What would be if offsets were reset or deleted; nothing is written anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from sharelag.whatif.from_cluster import scenario_from
from sharelag.workbench import deletions, resets
from sharelag.workbench.opened import Opened
from sharelag.workbench.result import Result


class WithPlans(Opened):
    """Questions about resets and deletions."""

    def plan_reset(
        self,
        group: str,
        to: str | int | datetime | None = None,
        *,
        shift_by: int | None = None,
        topic: str | None = None,
        local_offsets: str | Path | None = None,
        simulate: bool = False,
        members: int | None = None,
    ) -> Result:
        """What a reset of a group's start offsets would do; nothing is written anywhere.

        Parameters
        ----------
        group : str
        to : "earliest", "latest", int or datetime, optional
            The start or the end of each log, one offset for all, or the first record that was
            written at that time or later.
        shift_by : int
            In place of ``to``: so many offsets forwards or, if negative, backwards.
        topic : str, optional
            Only this one.
        local_offsets : str or pathlib.Path, optional
            What ``kafka-get-offsets.sh --time earliest-local`` printed: a file, to warn of reads
            from remote storage.
        simulate : bool
            Also simulate how long the group would take, at today's rates.
        members : int, optional
            With how many; else as many as there are now.

        Raises
        ------
        InputError
            ``to`` is something else, or not exactly one of the two is given; a simulation has no
            members, or would take too long.
        """
        evidence = self.evidence(group)
        plan = resets.reset_of(self.reading, evidence, to, shift_by, topic, local_offsets)
        said = self._simulated(group, plan, members) if simulate else ""
        return resets.reset_answer(
            plan, evidence, group, to, topic, self._base(), self._server, said
        )

    def plan_delete(
        self,
        group: str,
        topics: str | Sequence[str] = (),
        *,
        simulate: bool = False,
        members: int | None = None,
    ) -> Result:
        """What a deletion of a group, or of its offsets of topics, would do; nothing is written.

        Parameters
        ----------
        group : str
        topics : str or sequence of str
            Only the offsets of these; without any the group is deleted.
        simulate, members
            As for `plan_reset`.

        Returns
        -------
        Result
            `sharelag.schemas.RESET_PLAN`: what members would find if they came back at once, by
            ``share.auto.offset.reset`` of the group.

        Raises
        ------
        InputError
            The group has no state of a topic; a simulation has no members, or would take too long.
        """
        evidence = self.evidence(group)
        chosen = (topics,) if isinstance(topics, str) else tuple(topics)
        plan, begins = deletions.deletion_of(self.reading, evidence, group, chosen)
        said = self._simulated(group, plan, members) if simulate else ""
        return deletions.deletion_answer(
            plan, evidence, group, chosen, begins, self._base(), self._server, said
        )

    def _simulated(self, group: str, plan: pa.Table, members: int | None) -> str:
        scenario = scenario_from(self.evidence(group), group)
        return deletions.simulated_words(scenario, plan, members)

    @property
    def _server(self) -> str | None:
        """The address of a running cluster, for commands of Kafka."""
        config = getattr(self.source, "config", None)
        return None if config is None else config.bootstrap_servers
