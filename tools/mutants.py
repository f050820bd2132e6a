"""Small faults in the package, one at a time, and how many of them the tests catch.

    python -m tools.mutants sharelag/metrics --tests tests/unit/metrics --number 40 --seed 35

Faults are drawn by seed: an inverted comparison, an off-by-one number, an exchanged operator, a
negated condition, a missing return value. A mutant is caught if the tests fail or take ten times as
long. Files are changed in place and restored, so run it in a separate checkout.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
EXCHANGED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def mutate(node: ast.AST) -> ast.AST | None:
    """Return a node with a fault, None if none fits."""
    faulty = copy.deepcopy(node)
    match faulty:
        case ast.Compare(ops=[op, *_]) if type(op) in COMPARED:
            faulty.ops[0] = COMPARED[type(op)]()
        case ast.BinOp(op=op) if type(op) in EXCHANGED:
            faulty.op = EXCHANGED[type(op)]()
        case ast.BoolOp(op=op):
            faulty.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.Constant(value=bool(value)):
            faulty.value = not value
        case ast.Constant(value=int(value)):
            faulty.value = value + 1
        case ast.If(test=test) | ast.IfExp(test=test):
            faulty.test = ast.UnaryOp(ast.Not(), test)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            faulty.value = ast.Constant(None)
        case _:
            return None
    return faulty


def spots(node: ast.AST, is_inside: bool = False) -> Iterator[ast.expr | ast.stmt]:
    """Yield the nodes in functions that a fault fits, except annotations and defaults."""
    if is_inside and isinstance(node, ast.expr | ast.stmt) and mutate(node) is not None:
        yield node
    for name, value in ast.iter_fields(node):
        inside = is_inside or (isinstance(node, ast.FunctionDef) and name == "body")
        for child in value if isinstance(value, list) else [value]:
            is_left_out = isinstance(child, ast.arguments) or name in ("annotation", "returns")
            if isinstance(child, ast.AST) and not is_left_out:
                yield from spots(child, inside)


def faulty_source(source: str, node: ast.expr | ast.stmt) -> tuple[str, str]:
    """Return a file's source with a fault instead of a node, and the fault in words."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    first = starts[node.lineno - 1] + node.col_offset
    last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
    text = ast.unparse(ast.fix_missing_locations(mutate(node) or node))
    if isinstance(node, ast.expr):
        text = f"({text})"
    else:
        text = text.replace("\n", "\n" + " " * node.col_offset)
    raw = source.encode()
    was = raw[first:last].decode().splitlines()[0]
    said = f"{was[:70]}  ->  {text.splitlines()[0][:70]}"
    return (raw[:first] + text.encode() + raw[last:]).decode(), said


def run(tests: list[str], limit: float | None = None) -> tuple[bool, float]:
    """Return whether tests pass, and their duration in seconds."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return False, time.monotonic() - began
    return done.returncode == 0, time.monotonic() - began


def main() -> int:
    """Draw mutants, run the tests on each, and print survivors and the share of caught ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("places", nargs="+", type=Path, help="files or folders to mutate")
    parser.add_argument("--tests", nargs="+", required=True, help="what pytest runs")
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--seed", type=int, default=35)
    given = parser.parse_args()
    files = sorted(
        {
            path
            for place in given.places
            for path in ([place] if place.is_file() else place.rglob("*.py"))
        }
    )
    drawn = random.Random(given.seed)  # noqa: S311  # faults, not secrets
    every = [
        (path, number)
        for path in files
        for number, _ in enumerate(spots(ast.parse(path.read_text("utf-8"))))
    ]
    passes, seconds = run(given.tests)
    if not passes:
        print("the tests fail without any fault: mend them first")
        return 2
    caught = 0
    chosen = drawn.sample(every, min(given.number, len(every)))
    for path, number in chosen:
        source = path.read_text("utf-8")
        node = list(spots(ast.parse(source)))[number]
        faulty, said = faulty_source(source, node)
        times = path.stat()
        try:
            path.write_text(faulty, "utf-8")
            survives, _ = run(given.tests, 10 * seconds + 30)
        finally:
            path.write_text(source, "utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # numba's cache uses it
        caught += not survives
        if survives:
            print(f"survives: {path}:{node.lineno}: {said}", flush=True)
    print(f"{caught} of {len(chosen)} faults caught ({seconds:.0f} s a run)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
