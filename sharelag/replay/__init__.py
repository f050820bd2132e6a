"""Records to state in time, exactly as Kafka's share coordinator rebuilds it."""

from sharelag.replay.merge import combine
from sharelag.replay.state import drop_superseded, replay, replay_arrow

__all__ = ["combine", "drop_superseded", "replay", "replay_arrow"]
