import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pytest

from sharelag import compiled
from sharelag.inputs.recorded import folder_of
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.wire.interpreter import interpret
from tests.support import kernels
from tests.support.own_process import run_code

VALUES = np.array([-3, 5, 7])
TOTAL = 2 * 9 + 12 + 300 + 3


def test_a_kernel_is_the_function_that_was_written() -> None:
    assert (kernels.total(VALUES), kernels.total([-3, 5, 7])) == (TOTAL, TOTAL)
    assert kernels.total.__module__ == "tests.support.kernels"


def test_compiled_kernels_call_those_of_their_own_and_of_other_modules() -> None:
    ours = compiled.compile_kernel(kernels.total)
    assert ours(VALUES) == TOTAL
    assert ours.signatures  # type: ignore[attr-defined]
    assert compiled.compile_kernel(kernels.total) is ours
    assert kernels.total([1]) == 103  # the plain one stays what it was


def test_a_kernel_may_call_itself() -> None:
    assert compiled.compile_kernel(kernels.factorial)(10) == kernels.factorial(10) == 3_628_800


def test_little_work_is_done_without_numba_and_much_with_it() -> None:
    code = """
import sys
import numpy as np
from sharelag import compiled
from tests.support.kernels import total
values = np.arange(3)
assert compiled.ready(total, 10)(values) == 309
assert "numba" not in sys.modules
assert hasattr(compiled.ready(total, compiled.WORTH_IT), "signatures")
assert "numba" in sys.modules
assert hasattr(compiled.ready(total, 1), "signatures")
"""
    run_code(code)
    again = """
import sys
from sharelag import compiled
from tests.support.kernels import total
for _ in range(10):
    chosen = compiled.ready(total, compiled.WORTH_IT // 10)
assert hasattr(chosen, "signatures")  # many small pieces are a large one
"""
    run_code(again)


def test_arrays_come_as_views_where_a_kernel_asks_for_them(plain: None) -> None:
    octets, out = np.array([1, 255], np.uint8), np.zeros(2, np.int64)
    compiled.ready(kernels.shifted, 2)(octets, out)
    assert out.tolist() == [1 << 16, 255 << 16]
    again = np.zeros(2, np.int64)
    compiled.compile_kernel(kernels.shifted)(octets, again)
    assert again.tolist() == out.tolist()


@pytest.mark.slow
@pytest.mark.exhaustive  # it compiles a package again and again
def test_what_was_compiled_is_found_again_on_disk(tmp_path: Path) -> None:
    for name in ("__init__", "kernels", "more_kernels"):
        text = (Path(kernels.__file__).parent / f"{name}.py").read_text()
        (tmp_path / f"{name}.py").write_text(text.replace("tests.support", "cached"))
    folder = tmp_path / "cached"
    folder.mkdir()
    for file in tmp_path.glob("*.py"):
        file.rename(folder / file.name)
    code = """
import numpy as np
from sharelag.compiled import compile_kernel
from cached.kernels import total
ours = compile_kernel(total)
print(ours(np.array([-3, 5, 7])))
print(sum(ours.stats.cache_hits.values()), sum(ours.stats.cache_misses.values()))
"""

    def answer() -> list[str]:
        path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
        return run_code(f"{path}\n{code}").split()

    assert (answer(), answer()) == (["333", "0", "1"], ["333", "1", "0"])
    cache = folder / "__pycache__"
    kept = {path.name.partition("-")[0] for path in cache.glob("kernels.*.nbi")}
    # A changed number of another module, and then a changed kernel of it, are compiled again.
    for old, new, total in (("BONUS = 100", "BONUS = 200", "633"), ("else 0", "else 1", "636")):
        text = (folder / "more_kernels.py").read_text()
        (folder / "more_kernels.py").write_text(text.replace(old, new))
        assert answer() == [total, "0", "1"]
        now = {path.name.partition("-")[0] for path in cache.glob("kernels.*.nbi")}
        # What is not called is not compiled, and what the old sources left is removed.
        assert {name[:-12] for name in now} <= {name[:-12] for name in kept}
        assert len(now) == len({name[:-12] for name in now})
        assert not now & kept
        assert {path.name.partition("-")[0] for path in cache.glob("kernels.*.nbc")} == now
        kept = now


def test_kernels_without_source_files_are_compiled_for_this_process(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "zipped.zip", "w") as archive:
        for name in ("__init__", "kernels", "more_kernels"):
            text = (Path(kernels.__file__).parent / f"{name}.py").read_text()
            archive.writestr(f"zipped/{name}.py", text.replace("tests.support", "zipped"))
    code = f"""
import sys; sys.path.insert(0, {str(tmp_path / "zipped.zip")!r})
import numpy as np
from sharelag.compiled import compile_kernel
from zipped.kernels import total
print(compile_kernel(total)(np.array([-3, 5, 7])))
"""
    assert run_code(code, XDG_CACHE_HOME=str(tmp_path)).split() == [str(TOTAL)]


@pytest.mark.parametrize("topic", ["__share_group_state", "__consumer_offsets"])
def test_they_decode_alike_plain_and_compiled(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real records, and the same with a byte changed or an end cut off."""
    batch = damaged(recorded(), 600)
    with monkeypatch.context() as context:
        context.setattr(compiled, "is_worth_it", lambda _: False)
        plain = interpret(batch, topic)
    monkeypatch.setattr(compiled, "is_worth_it", lambda _: True)
    quick = interpret(batch, topic)
    assert (plain.records, plain.rejects) == (quick.records, quick.rejects)
    assert plain.skipped == quick.skipped
    assert plain.records.num_rows > 50
    assert plain.rejects.num_rows > 20


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "is_worth_it", lambda _: False)


def recorded() -> pa.RecordBatch:
    import pyarrow.parquet as pq

    (path,) = (folder_of("chapters") / "records").glob("*.parquet")
    batches: list[pa.RecordBatch] = pq.read_table(path).combine_chunks().to_batches()
    return batches[0]


def damaged(batch: pa.RecordBatch, count: int) -> pa.RecordBatch:
    random = np.random.default_rng(1)
    rows = batch.take(pa.array(random.integers(0, batch.num_rows, count)))
    columns = {name: rows.column(name) for name in rows.schema.names}
    for name in ("key", "value"):
        values = []
        for value in columns[name].to_pylist():
            if value and random.random() < 0.4:
                at = int(random.integers(len(value)))
                cut = random.random() < 0.5
                other = bytes([int(random.integers(256))])
                value = value[:at] if cut else value[:at] + other + value[at + 1 :]
            values.append(value)
        columns[name] = pa.array(values, pa.binary())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)


def test_records_are_replayed_the_same_plain_and_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real records in any order, some twice: the states, and what each record changed."""
    random = np.random.default_rng(2)
    rows = recorded().take(pa.array(random.integers(0, 1_500, 700)))
    records = interpret(rows, "__share_group_state").records
    found = {}
    for worth in (False, True):
        monkeypatch.setattr(compiled, "is_worth_it", lambda _, worth=worth: worth)
        found[worth] = (replay_arrow(records), history_arrow(records))
    assert found[False] == found[True]
    assert found[True][0].num_rows > 20


def test_sums_beyond_64_bits_wrap_round_without_a_word(plain: None) -> None:
    """A state batch may end at the greatest offset."""
    rows = np.array([[5, 2**63 - 1, 1, 0], [2**63 - 1, 2**63 - 1, 1, 2]] + [[0] * 4] * 6)
    same = rows.copy()
    ours = compiled.compile_kernel(kernels.combined)
    assert compiled.ready(kernels.combined, 0)(rows, 2, -1) == ours(same, 2, -1)
    assert rows.tolist() == same.tolist()


def test_a_process_begins_another_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []
    monkeypatch.setattr("subprocess.Popen", lambda command, **_: begun.append(command))
    for code in ("1", "2", "1"):
        compiled.begin_later(code)
    assert [command[-1] for command in begun] == ["1", "2"]


_ASK = """
import sys
from functools import partial
from sharelag import compiled
compiled.WORTH_IT = {worth}  # else the demo would have to be read, which takes seconds
compiled.begin_later = partial(print, flush=True)
"""
_IN_PYTHON = """
import sharelag
for _ in range(2):
    print(len(sharelag.open("chapters", engine="local").lag()) > 0, "numba" in sys.modules)
"""
_COMMAND = """
sys.argv = ["sharelag", "lag", "--capture", "chapters", "-o", "json"]
from sharelag.cli import main
main()
"""


@pytest.mark.parametrize(
    ("worth", "ask", "begun"),
    [(1_000, _IN_PYTHON, 1), (1_000, _COMMAND, 1), (10**9, _COMMAND, 0)],
    ids=["much", "much, a command", "little"],
)
def test_kernels_that_were_never_compiled_are_by_another_process(
    tmp_path: Path, worth: int, ask: str, begun: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASK.format(worth=worth) + ask],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert done.stdout.count("run_alone(prepared.use_kernels)") == begun
    assert done.stdout.count("True False") == (2 if ask == _IN_PYTHON else 0)


def test_one_process_compiles_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    niced: list[int] = []
    made: list[bool] = []
    monkeypatch.setattr(os, "nice", niced.append)

    def make() -> None:
        made.append(True)
        compiled.run_alone(make)  # another one, which finds that somebody is at it

    compiled.run_alone(make)
    assert (made, niced) == ([True], [19, 19])
    monkeypatch.setenv("NUMBA_CACHE_DIR", f"{__file__}/cache")  # which nobody can write
    compiled.run_alone(make)
    assert made == [True]
