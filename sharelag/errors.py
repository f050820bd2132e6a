"""Everything sharelag raises on purpose. A message says what happened and what to do next, in one line."""


class ShareLagError(Exception):
    """The base of all our errors: the command line prints it without a traceback and exits with 1."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback, whose last line alone says what to do."""
        return [f"{type(self).__name__}: {self}"]


# ---- what the user gave us -----------------------------------------------------------------------


class InputError(ShareLagError):
    """A file, a folder, a table or an option cannot be used as it is."""


class ConfigError(ShareLagError):
    """A client setting is unknown, contradictory or in a form that our client cannot read."""


class SetupError(ShareLagError):
    """Something on this machine is missing or too old: Java, Spark, a package."""


# ---- what the cluster answered -------------------------------------------------------------------


class ClusterError(ShareLagError):
    """A broker answered with an error, or not at all."""


class BrokerUnreachableError(ClusterError):
    """No broker answered within the time allowed."""


class AuthenticationError(ClusterError):
    """The broker refused who we say we are."""


class AuthorizationError(ClusterError):
    """The broker knows us and does not let us."""


class TopicMissingError(ClusterError):
    """The topic does not exist on this cluster."""


class NoLeaderError(ClusterError):
    """A partition has no leader at the moment: it is new, or its broker is gone."""


class DataLossError(ClusterError):
    """Records that were asked for are gone from the topic."""


# ---- what the records say ------------------------------------------------------------------------


class ReplayError(ShareLagError):
    """Kafka's own coordinator would refuse to load these records (raised by ``strict=True`` only)."""
