"""What would be if offsets were reset or deleted; nothing is written anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from sharelag.model.versions import require_version
from sharelag.whatif.from_cluster import scenario_from
from sharelag.workbench import deletions, resets
from sharelag.workbench.opened import Opened
from sharelag.workbench.result import Result


class WithPlans(Opened):
    """Questions about resets and deletions."""

    def plan_reset(
        self,
        group: str,
        to: resets.Target = None,
        *,
        shift_by: int | None = None,
        topic: str | Sequence[str] = (),
        local_offsets: str | Path | None = None,
        simulate: bool = False,
        members: int | None = None,
        kafka_version: str | None = None,
    ) -> Result:
        """What a reset of a group's start offsets would do; nothing is written anywhere.

        Parameters
        ----------
        group : str
        to : "earliest", "latest", int, datetime or timedelta, optional
            The start or the end of each log, one offset for all, or the first record that was
            written at that time or later, or at most so long before.
        shift_by : int
            In place of ``to``: so many offsets forwards or, if negative, backwards, from the first
            unfinished one.
        topic : str or sequence of str
            Only these, or with ``orders:0,2`` only these partitions. On a running cluster the group
            need not have any state of them.
        local_offsets : str or pathlib.Path, optional
            What ``kafka-get-offsets.sh --time earliest-local`` printed: a file, to warn of reads
            from remote storage.
        simulate : bool
            Also simulate how long the group would take, at today's rates.
        members : int, optional
            With how many; else as many as there are now.
        kafka_version : str, optional
            Of Kafka's command, such as ``4.3.1``; else that of the input, or where it is not known
            one that its settings are of.

        Raises
        ------
        InputError
            ``to`` is something else, or not exactly one of the two is given; there is no such
            topic or partition; a simulation has no members, or would take too long.
        """
        resets.require_target(to, shift_by)
        require_version(kafka_version)
        topics = (topic,) if isinstance(topic, str) else tuple(topic)
        whole = simulate or self.is_gathered
        evidence = self.evidence(group) if whole else self._state(group, "windows", "groups")
        plan = resets.reset_of(self.reading, evidence, group, to, shift_by, topics, local_offsets)
        said = deletions.not_simulated()
        if simulate:
            plan, said = self._simulated(group, plan, members)
        return resets.reset_answer(
            plan, evidence, group, to, topics, self._base_of(evidence), self.source, said,
            kafka_version,
        )  # fmt: skip

    def plan_delete(
        self,
        group: str,
        topics: str | Sequence[str] = (),
        *,
        simulate: bool = False,
        members: int | None = None,
        kafka_version: str | None = None,
    ) -> Result:
        """What a deletion of a group, or of its offsets of topics, would do; nothing is written.

        Parameters
        ----------
        group : str
        topics : str or sequence of str
            Only the offsets of these; without any the group is deleted.
        simulate, members, kafka_version
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
        require_version(kafka_version)
        evidence = self.evidence(group)
        chosen = (topics,) if isinstance(topics, str) else tuple(topics)
        plan, begins = deletions.deletion_of(self.reading, evidence, group, chosen)
        said = deletions.not_simulated()
        if simulate:
            plan, said = self._simulated(group, plan, members)
        return deletions.deletion_answer(
            plan, evidence, group, chosen, begins, self._base(), self.source, said, kafka_version
        )

    def _simulated(self, group: str, plan: pa.Table, members: int | None) -> tuple[pa.Table, str]:
        scenario = scenario_from(self.evidence(group), group)
        return deletions.simulated(scenario, plan, members)
