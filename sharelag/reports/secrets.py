"""Find the secrets of a run, and mask them in all of its output.

Client settings reach the notebook's kernel through its environment, never as a parameter of
papermill, which writes parameters down. Masking is the second line of defence: it covers what
libraries print.
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

from sharelag.errors import ConfigError
from sharelag.inputs.kafka.config import read_properties, resolve

#: Client properties for the kernel, as JSON.
PROPERTIES = "SHARELAG_COMMAND_PROPERTIES"
MASK = "********"
#: Names of settings and parameters whose values are secret.
_SECRET_NAME = re.compile(
    r"passw|secret|token|credential|jaas|passphrase|private|api.?key|key.?pem|ssl\.key", re.I
)
#: Shorter values would occur in any text.
_LEAST = 4
_LEAST_IN_ENVIRONMENT = 8
#: Options of a JAAS configuration, such as password="...".
_QUOTED = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")


def is_secret_name(name: str) -> bool:
    """Return whether a setting or parameter of this name may hold a secret."""
    return bool(_SECRET_NAME.search(name))


def secrets_of(
    command_config: str | Path | None,
    properties: Mapping[str, str],
    parameters: Mapping[str, Any] | None = None,
) -> frozenset[str]:
    """Collect the secrets that a run could reveal.

    These are values of settings, parameters of the notebook and environment variables whose name
    suggests a secret, and the secrets within JAAS configurations. An unreadable file of client
    properties is ignored here, as the run itself reports it.
    """
    settings: dict[str, Any] = dict(parameters or {})
    # Short values of environment variables are switches rather than secrets.
    settings |= {k: value for k, value in os.environ.items() if len(value) >= _LEAST_IN_ENVIRONMENT}
    if command_config:
        with suppress(ConfigError):
            settings |= read_properties(Path(command_config))
    with suppress(ValueError):
        settings |= dict(json.loads(os.environ.get(PROPERTIES, "{}")))
    settings |= properties
    with suppress(ConfigError):
        settings |= resolve({k: v for k, v in settings.items() if isinstance(v, str)})
    found: set[str] = set()
    for name, value in settings.items():
        if not isinstance(value, str) or not is_secret_name(name):
            continue
        found.add(value)
        found |= {text.strip("\"'") for key, text in _QUOTED.findall(value) if is_secret_name(key)}
    return frozenset(  # an existing path is not secret itself
        secret
        for secret in found
        if len(secret) >= _LEAST
        and not (secret.startswith(("/", "~", ".")) and Path(secret).expanduser().exists())
    )


def scrub(value: Any, secrets: Iterable[str]) -> Any:
    """Replace secrets by `MASK` in a string, or in lists and mappings of strings.

    Other values are returned unchanged.
    """
    return mask_strings(value, masker(secrets))


def masker(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that replaces secrets in a text by `MASK`."""
    forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
    if not forms:
        return str
    pattern = re.compile("|".join(map(re.escape, forms)))
    return lambda text: pattern.sub(MASK, text)


def mask_strings(value: Any, mask: Callable[[str], str]) -> Any:
    """Apply a mask to every string in a value, keys included."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask_strings(name, mask): mask_strings(item, mask) for name, item in value.items()}
    is_list = isinstance(value, list | tuple)
    return [mask_strings(item, mask) for item in value] if is_list else value


def _forms(secret: str) -> set[str]:
    """Return the spellings of a secret: plain, and as in JSON, HTML, Python and URLs."""
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        escape(secret),
        repr(secret)[1:-1],
        quote(secret, safe=""),
    }
