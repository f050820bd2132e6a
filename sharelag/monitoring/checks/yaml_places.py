"""Read YAML with the place of every value; what a small text cannot mean is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import yaml

from sharelag.errors import InputError, first_line

#: The path of a value, as pydantic names it, line and column of its key, whether the key repeats.
Place: TypeAlias = tuple[tuple[Any, ...], tuple[int, int], bool]
#: Values of a text, with each alias counted as all that its anchor has: a few lines of aliases of
#: aliases would be billions.
_MOST_VALUES = 100_000
#: Characters of a text: PyYAML takes some 350 bytes for each, before values can be counted.
_MOST_CHARACTERS = 1 << 20


def parse_yaml(text: str, name: str) -> tuple[Any, list[Place]]:
    """Parse a YAML document.

    Parameters
    ----------
    text : str
    name : str
        What messages call it.

    Returns
    -------
    tuple
        Its data, and the places of its values.

    Raises
    ------
    InputError
        It is not YAML, is too long or nested too deeply, or has aliases that stand for too many
        values.
    """
    if len(text) > _MOST_CHARACTERS:
        raise InputError(f"{name}: more than {_MOST_CHARACTERS:,} characters: write fewer")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None, []
        if _size(node, {}) > _MOST_VALUES:
            raise InputError(
                f"{name}: more than {_MOST_VALUES:,} values: write fewer values or aliases"
            )
        return loader.construct_document(node), list(_places(node, ()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise InputError(f"{where}: invalid YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise InputError(f"{name}: invalid YAML: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{name}: invalid YAML: {first_line(error)}") from None
    except (ArithmeticError, LookupError, AttributeError):
        # PyYAML's constructors raise these for what a tag does not allow, such as `!!bool x`.
        raise InputError(f"{name}: invalid YAML: a value is not of the type of its tag") from None


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node has when each alias stands for all that its anchor has."""
    if id(node) not in known:
        known[id(node)] = 1  # also where an anchor contains itself
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        known[id(node)] += sum(_size(child, known) for child in children)
    return known[id(node)]


def _places(node: yaml.Node, path: tuple[Any, ...]) -> Iterator[Place]:
    """Yield the path of every value, as pydantic names it, and the place of its key."""
    if not path:
        yield path, _mark(node), False
    if len(path) > 4:  # deeper than any rule; an anchor may even contain itself
        return
    if isinstance(node, yaml.SequenceNode):
        for number, child in enumerate(node.value):
            yield (*path, number), _mark(child), False
            yield from _places(child, (*path, number))
    elif isinstance(node, yaml.MappingNode):
        seen = set()
        for key, child in node.value:
            yield (*path, key.value), _mark(key), key.value in seen
            seen.add(key.value)
            yield from _places(child, (*path, key.value))


def _mark(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line, node.start_mark.column
