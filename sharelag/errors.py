"""The exceptions that sharelag raises; each message says what happened and what to do next."""


class ShareLagError(Exception):
    """The base class: the command line prints it without a traceback and exits with 1."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback: the message alone."""
        return [f"{type(self).__name__}: {self}"]


# ---- input and configuration ---------------------------------------------------------------------


class InputError(ShareLagError):
    """A file, a folder, a table or an option cannot be used as it is."""


class ConfigError(ShareLagError):
    """A client setting is unknown, contradictory or in a form that the client cannot read."""


class SetupError(ShareLagError):
    """Something on this machine is missing or too old: Java, Spark, a package."""


# ---- what the cluster answered -------------------------------------------------------------------


class ClusterError(ShareLagError):
    """A broker answered with an error, or not at all."""


class BrokerUnreachableError(ClusterError):
    """No broker answered within the time allowed."""


class AuthenticationError(ClusterError):
    """The broker rejected our credentials."""


class AuthorizationError(ClusterError):
    """The broker authenticated us but does not authorize the operation."""


class TopicMissingError(ClusterError):
    """The topic does not exist on this cluster."""


class NoLeaderError(ClusterError):
    """A partition currently has no leader: it is new, or its broker is down."""


class DataLossError(ClusterError):
    """Requested records have been deleted from the topic."""


# ---- what the records say ------------------------------------------------------------------------


class ReplayError(ShareLagError):
    """Kafka's own coordinator would fail to load these records (raised only by ``strict=True``)."""
