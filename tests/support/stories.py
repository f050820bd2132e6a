"""What recorded clusters are known to show: the first cause of each of their groups."""

import json

from sharelag.inputs.recorded import folder_of

#: Many groups, one that is well, and causes of groups, of share partitions and of single records.
VARIED = {"demo", "chapters", "healthy", "no_members", "held_head", "redelivery_storm"}


def causes_of(name: str) -> dict[str, str | None]:
    """Return the cause that `explain` must name first, by group; None: nothing is wrong.

    Groups of samples that tell no story of causes are left out.
    """
    path = folder_of(name) / "expected.json"
    if not path.exists():
        return {}
    about = json.loads(path.read_text("utf-8"))
    if "groups" in about:
        return {group: one["cause"] for group, one in about["groups"].items()}
    return {about["group"]: about["cause"]}
