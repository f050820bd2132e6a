"""Values that client properties do not have themselves: ``${env:KAFKA_PASSWORD}``.

Source: Kafka's ``ConfigTransformer`` and the three providers that its clients bring along. A
reference without a value, which they leave as it is written, is an error here: it would be sent to
brokers as a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from sharelag.errors import ConfigError
from sharelag.inputs.texts import text_of

_LIST = "config.providers"
#: A provider, a path that need not be there, and a name: not nested, not resolved again.
_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
#: Bytes of a file with secrets.
_MOST_BYTES = 1 << 20

_Parameters = Mapping[str, str]
_Lookup = Callable[[str, str, _Parameters], str | None]


def resolve(properties: Mapping[str, str]) -> dict[str, str]:
    """Replace references to the providers that Java's client properties name.

    ``config.providers`` and what belongs to it are left out; references to other providers stay. A
    provider that is not one of Kafka's own, or has no such value, is a ConfigError. No message
    contains a value.
    """
    names = [name.strip() for name in properties.get(_LIST, "").split(",") if name.strip()]
    providers = {name: _provider(name, properties) for name in names}
    found = {}
    for setting, value in properties.items():
        if setting != _LIST and not setting.startswith(f"{_LIST}."):
            found[setting] = _replace(setting, value, providers)
    return found


def _provider(name: str, properties: Mapping[str, str]) -> tuple[_Lookup, _Parameters]:
    of_it = f"{_LIST}.{name}."
    class_name = properties.get(f"{of_it}class", "").strip()
    if class_name not in _PROVIDERS:
        problem = f"is {class_name}, which only Java can load" if class_name else "is not set"
        raise ConfigError(f"{of_it}class {problem}: use one of {', '.join(sorted(_PROVIDERS))}")
    param = f"{of_it}param."
    given = {key.removeprefix(param): value for key, value in properties.items()}
    return _PROVIDERS[class_name], given


def _replace(setting: str, value: str, providers: Mapping[str, tuple[_Lookup, _Parameters]]) -> str:
    def value_of(found: re.Match[str]) -> str:
        provider, path, key = found[1], found[2] or "", found[3]
        if provider not in providers:
            return found[0]
        lookup, parameters = providers[provider]
        try:
            text = lookup(path, key, parameters)
        except ConfigError as error:
            raise ConfigError(f"{found[0]} of {setting} cannot be read: {error}") from None
        if text is None:
            raise ConfigError(f"{found[0]} of {setting} has no value: check its spelling")
        return text

    return _REFERENCE.sub(value_of, value)


def _of_environment(path: str, key: str, parameters: _Parameters) -> str | None:
    if path:
        raise ConfigError("a variable of the environment has no path: write ${env:NAME}")
    pattern = parameters.get("allowlist.pattern", "").strip()
    try:
        is_allowed = not pattern or re.fullmatch(pattern, key) is not None
    except re.error as error:
        raise ConfigError(f"allowlist.pattern is not a pattern ({error})") from None
    if not is_allowed:
        raise ConfigError("allowlist.pattern does not allow this name")
    return os.environ.get(key)


def _of_file(path: str, key: str, parameters: _Parameters) -> str | None:
    import javaproperties

    text = _text(path, parameters)
    try:
        return dict(javaproperties.loads(text)).get(key)
    except javaproperties.InvalidUEscapeError:
        raise ConfigError(f"{path} is not a Java properties file") from None


def _of_folder(path: str, key: str, parameters: _Parameters) -> str | None:
    # As Kafka lists a folder's files: a name that leads elsewhere does not belong to it.
    if not key or key != Path(key).name or not (Path(path) / key).is_file():
        _require_allowed(path, parameters)
        return None
    return _text(str(Path(path) / key), parameters)


def _text(path: str, parameters: _Parameters) -> str:
    place = _require_allowed(path, parameters)
    try:
        with place.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"{path} is larger than {_MOST_BYTES >> 20} MiB")
        return text_of(content)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path} is not text in UTF-8") from None


def _require_allowed(path: str, parameters: _Parameters) -> Path:
    """Return a path that a provider may read: without ``allowed.paths``, any."""
    place = Path(os.path.normpath(path))
    given = [each.strip() for each in parameters.get("allowed.paths", "").split(",")]
    allowed = [Path(os.path.normpath(each)) for each in given if each]
    if allowed and not any(place.is_relative_to(each) for each in allowed):
        raise ConfigError(f"allowed.paths does not allow {path}")
    return place


_OF_KAFKA = "org.apache.kafka.common.config.provider."
_PROVIDERS: dict[str, _Lookup] = {
    f"{_OF_KAFKA}EnvVarConfigProvider": _of_environment,
    f"{_OF_KAFKA}FileConfigProvider": _of_file,
    f"{_OF_KAFKA}DirectoryConfigProvider": _of_folder,
}
