"""Share groups in the jars of each release of Kafka: messages, options, settings, metrics.

A released jar does not change, so the output of its tools is cached.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.kafka import jars
from tests.support.kafka.jars import build_once, cache_dir, kafka_jars
from tests.support.kafka.jvm import RigError, run_java

#: Kafka's programs that print facts without a cluster.
_TOOLS = {
    "share groups": ("org.apache.kafka.tools.consumer.group.ShareGroupCommand", "--help"),
    "console": ("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--help"),
    "features": ("kafka.tools.StorageTool", "version-mapping"),
    "brokers": ("kafka.server.KafkaConfig",),
    "groups": ("org.apache.kafka.coordinator.group.GroupConfig",),
    "consumers": ("org.apache.kafka.clients.consumer.ConsumerConfig",),
    "topics": ("org.apache.kafka.storage.internals.log.LogConfig",),
}
#: Output before harmless errors: the help of 4.0 ends with one, and its GroupConfig is not a
#: program.
_HELP, _NO_PROGRAM = "Print usage information", "Main method not found"
#: Size of each constant of a class file after its tag, except texts.
_CONSTANTS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4}
_CONSTANTS |= {15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_UTF8, _STRING, _WIDE = 1, 8, (5, 6)


class Printed(NamedTuple):
    """A setting in Kafka's documentation."""

    kind: str
    default: str
    valid: str


@dataclass(frozen=True)
class Release:
    """One release, represented by a version."""

    name: str
    version: str

    @cached_property
    def messages(self) -> dict[str, dict[str, Any]]:
        """Schemas of messages and records of share groups, by name."""
        found = {}
        for jar in self._jars("kafka-*.jar"):
            with zipfile.ZipFile(jar) as files:
                for name in files.namelist():
                    if re.fullmatch(r"common/message/\w*Share\w+\.json", name):
                        found[Path(name).stem] = message(files, Path(name).stem)
        return found

    @cached_property
    def features(self) -> dict[str, str]:
        """Feature levels of a new cluster; the metadata's with its name."""
        return dict(re.findall(r"^([\w.]+)=(.+)$", self._told("features"), re.MULTILINE))

    def options(self, tool: str) -> set[str]:
        """Return the options of a command: ``share groups`` or ``console``."""
        return set(re.findall(r"^--([a-z][a-z-]*)", self._told(tool), re.MULTILINE))

    def default_of(self, tool: str, option: str) -> str | None:
        """Return the default of an option in the help of a command."""
        text = self._told(tool).partition(f"\n--{option} ")[2].partition("\n--")[0]
        found = re.search(r"\(default:\s+(\S+)\)", text)
        return None if found is None else found[1]

    def printed(self, whose: str) -> dict[str, Printed]:
        """Return the settings of brokers, groups, topics or consumers that are not internal."""
        found = {}
        for block in self._told(whose).split("<h4>")[1:]:
            cells = dict(re.findall(r"<th>([\w ]+):</th><td>(.*?)</td>", block, re.DOTALL))
            name = re.search(r'<a id="([^"]+)"', block)
            if name is not None:
                keys = ("Type", "Default", "Valid Values")
                found[name[1]] = Printed(*(html.unescape(cells.get(key, "")) for key in keys))
        return found

    def texts(self, *classes: str) -> list[str]:
        """Return the text constants of classes in any jar, in order."""
        return [text for of in classes for text in self._classes.get(of, [])]

    @cached_property
    def _classes(self) -> dict[str, list[str]]:
        """Text constants of the classes about share groups, by class name."""
        found: dict[str, list[str]] = {}
        about = re.compile(r"(\w+/)*(\w*(Share|Coordinator|Group)\w*|RecordState)(\$\w+)?\.class")
        for jar in self._jars("kafka*.jar"):
            with zipfile.ZipFile(jar) as files:
                for name in files.namelist():
                    if about.fullmatch(name):
                        key = name.rpartition("/")[2].removesuffix(".class")
                        found.setdefault(key, []).extend(_texts(files.read(name)))
        return found

    def _jars(self, pattern: str) -> list[Path]:
        return sorted(kafka_jars(self.version).glob(pattern))

    def _told(self, tool: str) -> str:
        return (told(self.version) / tool).read_text("utf-8")


#: In order.
RELEASES = tuple(Release(name, version) for name, version in jars.RELEASES.items())


@cache
def told(version: str) -> Path:
    """Return the folder of the output of a version's programs, which run the first time."""
    stamp = hashlib.sha256(repr(_TOOLS).encode()).hexdigest()[:8]
    return build_once(
        cache_dir() / f"kafka-{version}-told-{stamp}", lambda folder: _tell(version, folder)
    )


def _tell(version: str, folder: Path) -> None:
    for tool, (main_class, *arguments) in _TOOLS.items():
        done = run_java([kafka_jars(version) / "*"], main_class, *arguments)
        said = done.stdout + done.stderr
        if done.returncode and _HELP not in said and _NO_PROGRAM not in said:
            raise RigError(f"{main_class} of Kafka {version} failed:\n{said}")
        (folder / tool).write_text(said, "utf-8")


def message(jar: zipfile.ZipFile, name: str) -> dict[str, Any]:
    """Return a message schema of a jar without comments, which JSON does not allow."""
    text = jar.read(f"common/message/{name}.json").decode()
    text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    found: dict[str, Any] = json.loads(re.sub(r"(?<=[,\]}\s])//.*$", "", text, flags=re.MULTILINE))
    return found


def _texts(compiled: bytes) -> list[str]:
    """Return the text constants of a class, from its constant pool (JVMS, 4.4)."""
    texts, used = {}, []
    for number, tag, content in _constants(compiled):
        if tag == _UTF8:
            texts[number] = content.decode("utf-8", "replace")
        elif tag == _STRING:
            used.append(int.from_bytes(content))
    return [texts[number] for number in used]


def _constants(compiled: bytes) -> Iterator[tuple[int, int, bytes]]:
    count = int.from_bytes(compiled[8:10])
    number, at = 1, 10
    while number < count:
        tag = compiled[at]
        begin = at + 1
        if tag == _UTF8:
            begin, size = at + 3, int.from_bytes(compiled[at + 1 : at + 3])
        else:
            size = _CONSTANTS[tag]
        at = begin + size
        yield number, tag, compiled[begin:at]
        number += 2 if tag in _WIDE else 1
