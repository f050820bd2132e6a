"""Lines of ``kafka-acls.sh`` that grant rights, for bash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sharelag.model.rights import Right
from sharelag.tables.words import shell_word

#: Who a grant is for when the client settings do not tell.
SOMEBODY = "User:YOU"


def grant(right: Right, principal: str = SOMEBODY, server: str = "HOST:PORT") -> str:
    """Return the line that grants a right."""
    to = [f"--allow-principal={principal}"]
    return _line(server, "--add", to, right.operation, right.resource_type, right.resource or "*")


def allow_again(rule: Mapping[str, Any], server: str = "HOST:PORT") -> str:
    """Return the line that removes a denial.

    Parameters
    ----------
    rule : mapping
        A row of `sharelag.schemas.ACLS`.
    server : str
        The address of a broker.
    """
    of = [f"--deny-principal={rule['principal']}"]
    if rule["acl_host"] != "*":
        of.append(f"--deny-host={rule['acl_host']}")
    if rule["pattern_type"] == "PREFIXED":
        of.append("--resource-pattern-type=prefixed")
    what = rule["operation"], rule["resource_type"], rule["resource"]
    return _line(server, "--remove", of, *what)


def _line(
    server: str, what: str, who: list[str], operation: str, resource_type: str, name: str
) -> str:
    words = ["kafka-acls.sh", "--bootstrap-server", server, what, *who]
    words += ["--operation", operation.title().replace("_", "")]
    if resource_type == "CLUSTER":
        words.append("--cluster")
    else:
        # With an equals sign: a name may begin with a dash.
        words.append(f"--{resource_type.lower()}={name}")
    return " ".join(map(shell_word, words))
