"""Whatever an agent sends is answered, or refused by a sentence."""

import inspect
import json
import random
import subprocess
import sys
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError

import sharelag
from sharelag.errors import ShareLagError
from sharelag.inputs.recorded import folder_of
from sharelag.monitoring.agents import Tools
from tests.support.reliability import Inject
from tests.support.widgets.samples import HOSTILE

#: What any parameter may be given, besides what it has to be.
ODD: list[Any] = [
    None, "", "checkout", "orders", HOSTILE, "\x00", "\ud800", "../../etc/passwd", "x" * 2000, "1e999", 0, 1, 2, -1,
    1 << 31, 1 << 63, 1 << 70, 0.5, float("nan"), float("inf"), True, [], [1], [None], ["simple"], {}, {"a": 1},
    "2026-11-21T03:10:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "yesterday", "simple",
    ["simple", "simple"], [1] * 13, [[]] * 3,
]  # fmt: skip
#: What fits, which three of five parameters are given, so that more than types are tried.
FITS: dict[str, Any] = {
    "partition": 0, "at": "2026-11-21T03:10:00Z", "members": 2, "assignor": "simple", "lock_seconds": 30,
    "assignors": ["simple"], "to": "latest", "topics": [], "given": {"share.delivery.count.limit": "7"},
    "kafka_version": "4.4",
}  # fmt: skip
NAMES = ["groups", "lag", "explain", "window", "what_if", "compare", "settings"]
NAMES += ["plan_reset", "plan_delete"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_arguments_are_answered_or_refused(name: str, cases: Any, injected: Inject) -> None:
    """By types as the server checks them, and then by the tool."""
    bench = sharelag.open("poison", engine="local")
    tool = getattr(Tools(bench), name)
    first = bench.lag().table.select(["group_id", "topic"]).to_pylist()[0]
    fits = FITS | {"group": first["group_id"], "topic": first["topic"]}
    if name == "compare":
        fits |= {"members": [1, 2]}
    types = get_type_hints(tool, include_extras=True)
    needed = {
        parameter.name
        for parameter in inspect.signature(tool).parameters.values()
        if parameter.default is inspect.Parameter.empty
    }
    chance = random.Random(name)
    taken: set[str] = set()
    refused = 0
    for _ in range(cases(25, 2000)):
        given = {
            parameter: fits[parameter]
            if parameter in fits and chance.random() < 0.6
            else chance.choice(ODD)
            for parameter in types
            if parameter != "return" and (parameter in needed or chance.random() < 0.6)
        }
        if "seconds" in types:  # simulations are short here
            given |= {"seconds": chance.choice([1, 2, -1, ""]), "seeds": chance.choice([2, -1])}
        try:
            read = {key: TypeAdapter(types[key]).validate_python(one) for key, one in given.items()}
        except ValidationError:
            continue
        if repr(read) in taken:  # it was asked before, and nothing else has changed
            continue
        taken.add(repr(read))
        try:
            answer = tool(**read)
        except ShareLagError as error:
            answer = {"error": str(error)}
            refused += 1
        except Exception as error:
            pytest.fail(f"{given}: {type(error).__name__}: {error}")
        assert isinstance(answer, dict)
    assert taken
    assert get_args(types["return"])
    happened = {"answers": len(taken) - refused, "refusals with the reason": refused}
    injected("clients", "an odd request to the MCP server", len(taken), happened)


#: What is no request of the protocol, or one that asks for nothing there is.
NONSENSE = [
    *(b"\xff\xfe\0", b"", b"{", b"[]", b"null", b'"\\ud800"'),
    *(b"1" * 5000, b"[" * 100_000, b"x" * (1 << 20)),
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call"}',
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"nope"}}',
    b'{"jsonrpc":"2.0","id":8,"method":"no/such"}',
    b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"lag","arguments":[1]}}',
]


def test_lines_that_are_no_requests_stop_no_server(injected: Inject) -> None:
    """Over stdin and stdout; what the server says then is still the protocol."""
    begin: dict[str, Any] = {"protocolVersion": "2025-03-26", "capabilities": {}}
    begin["clientInfo"] = {"name": "test", "version": "1"}
    requests = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}).encode(),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        *NONSENSE,
        b'{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"groups","arguments":{}}}',
    ]
    command = [sys.executable, "-c", "from sharelag.cli import main; main()"]
    with subprocess.Popen(
        [*command, "mcp", "--capture", str(folder_of("poison"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"".join(line + b"\n" for line in requests))
        server.stdin.flush()
        said: dict[Any, Any] = {}
        for line in server.stdout:
            answer = json.loads(line)
            said[answer.get("id")] = answer
            if answer.get("id") == 99:
                break
        server.stdin.close()
    assert server.returncode == 0
    assert "poison" in said[99]["result"]["content"][0]["text"]
    assert "Unknown tool" in said[7]["result"]["content"][0]["text"]
    assert "error" in said[8]
    assert "error" in said[9]
    happened = {"refusals with the reason": sum("error" in str(said[one]) for one in (7, 8, 9))}
    injected("clients", "an invalid line to the MCP server", len(NONSENSE), happened)
