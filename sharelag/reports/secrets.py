"""The secrets we were given, taken out of everything that a run leaves behind.

Client settings reach the notebook's kernel through its environment, never as a parameter of
papermill, which writes parameters down. This is the second fence: whatever a library says of itself
is searched for them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import javaproperties

#: Client properties for the kernel, as JSON.
PROPERTIES = "SHARELAG_COMMAND_PROPERTIES"
MASK = "********"
#: Names of settings and parameters whose values nobody may see.
_SECRET_NAME = re.compile(
    r"passw|secret|token|credential|jaas|passphrase|private|api.?key|key.?pem|ssl\.key", re.I
)
#: Shorter ones would be found in every text.
_LEAST = 4
_LEAST_IN_ENVIRONMENT = 8
#: The parts of a JAAS configuration that are secret, such as password="..."; the rest are class
#: names.
_QUOTED = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")


def is_secret_name(name: str) -> bool:
    """Whether a setting or a parameter of this name could hold a secret."""
    return bool(_SECRET_NAME.search(name))


def secrets_of(
    command_config: str | Path | None,
    properties: Mapping[str, str],
    parameters: Mapping[str, Any] | None = None,
) -> frozenset[str]:
    """The secrets that a run could give away.

    Parameters
    ----------
    command_config : path, optional
        Client properties; a file that cannot be read holds none, the run itself tells why.
    properties : mapping
        Single client properties.
    parameters : mapping, optional
        Of the notebook.

    Returns
    -------
    frozenset of str
        Values of settings, parameters and environment variables with telling names, and what JAAS
        quotes in them.
    """
    settings: dict[str, Any] = dict(parameters or {})
    # What a shell or a scheduler sets is not all secret that is called so: short values are
    # switches.
    settings |= {
        name: value for name, value in os.environ.items() if len(value) >= _LEAST_IN_ENVIRONMENT
    }
    if command_config:
        with suppress(OSError, ValueError), Path(command_config).open("rb") as file:
            settings |= dict(javaproperties.load(file))
    with suppress(ValueError):
        settings |= dict(json.loads(os.environ.get(PROPERTIES, "{}")))
    settings |= properties
    found: set[str] = set()
    for name, value in settings.items():
        if not isinstance(value, str) or not is_secret_name(name):
            continue
        found.add(value)
        found |= {text.strip("\"'") for key, text in _QUOTED.findall(value) if is_secret_name(key)}
    return frozenset(secret for secret in found if len(secret) >= _LEAST and not _is_path(secret))


def _is_path(value: str) -> bool:
    """Where a secret lies is none."""
    return value.startswith(("/", "~", ".")) and Path(value).expanduser().exists()


def scrubbed(value: Any, secrets: Iterable[str]) -> Any:
    """The same text, or lists and mappings of texts, with `MASK` where a secret stood.

    Parameters
    ----------
    value : str, list, mapping or anything else
        Anything else is returned as it is.
    secrets : iterable of str
    """
    return masked(value, masker(secrets))


def masker(secrets: Iterable[str]) -> Callable[[str], str]:
    """What puts `MASK` into a text where a secret stands."""
    forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
    if not forms:
        return str
    pattern = re.compile("|".join(map(re.escape, forms)))
    return lambda text: pattern.sub(MASK, text)


def masked(value: Any, mask: Callable[[str], str]) -> Any:
    """Every text in a value with a mask put on it, keys, too."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {masked(name, mask): masked(item, mask) for name, item in value.items()}
    return [masked(item, mask) for item in value] if isinstance(value, list | tuple) else value


def _forms(secret: str) -> set[str]:
    """A secret as it is, and as JSON, HTML, Python and addresses write it."""
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        escape(secret),
        repr(secret)[1:-1],
        quote(secret, safe=""),
    }
