"""Kernels: plain functions that are compiled when there is enough work to be worth it.

A kernel is written once. `kernel` registers the function and leaves it as it is, so kernels call
each other in plain Python as they would compiled, and importing one does not import numba:

    @kernel
    def total(values: Any) -> Any:
        found = 0
        for k in range(values.size):
            found += doubled(values[k])  # another kernel, of this module or of another one
        return found

`ready` chooses the form for an amount of work:

    ready(total, work=values.size)(values)

Compiling happens in a copy of the module's globals in which every kernel is its compiled form.
numba keeps what it compiled beside the source, and knows a changed source by the times of that one
file. A kernel has the code of other modules in it, and an installed wheel may have the times of
the one before, so the names of compiled kernels end with a digest of all sources in them. When one
is compiled anew, what an older source left is removed.

A kernel must mean the same in both forms. Numbers read from arrays are numpy scalars in plain
Python, which keep their type where numba widens them to 64 bits. A kernel that only indexes its
arrays takes ``views=True``: in plain Python they come as memoryviews, of which Python's own numbers
are read, and twice as fast.
"""

from __future__ import annotations

import glob
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar, overload

from sharelag.version import __version__

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Loading numba and a cached kernel takes about as long as plain Python takes for so many steps:
#: half a second of a core.
WORTH_IT = 500_000
#: Steps that plain Python takes in the time in which kernels would be compiled: the demo's 17
#: million take 6 s of a core, where the kernels for them take 36 s.
WORTH_COMPILING = 100_000_000

#: Characters of a digest.
_DIGEST = 12

_lock = threading.RLock()
_options: dict[Any, dict[str, Any]] = {}
_plain: dict[Any, Any] = {}
_compiled: dict[Any, Any] = {}
_complete: dict[Any, Any] = {}
_parts_only: set[Any] = set()
_part_names: set[str] = set()  # as LLVM knows them
_globals: dict[int, dict[str, Any]] = {}
_digests: dict[int, str] = {}
_steps = 0  # of all work so far
_are_compiled: Callable[[], bool] | None = None
#: Whether this process uses plain kernels for less than `WORTH_COMPILING`, as none were compiled.
is_left = False


@overload
def kernel(function: Callable[_P, _T], /) -> Callable[_P, _T]: ...
@overload
def kernel(
    *, views: bool = ..., **options: Any
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]: ...
def kernel(function: Any = None, /, *, views: bool = False, **options: Any) -> Any:
    """Register a function as a kernel; return it as it is.

    Parameters
    ----------
    function : function
    views : bool
        Whether `ready` gives the plain form memoryviews in place of arrays.
    **options
        Of ``numba.njit``, for instance ``inline="always"``. The cache is on and the lock of the
        interpreter is released unless they say otherwise.
    """
    if function is None:
        return partial(kernel, views=views, **options)
    _plain[function] = _in_python(function, views)
    _options[function] = {"cache": True, "nogil": True} | options
    return function


def part(function: Callable[_P, _T], /) -> Callable[_P, _T]:
    """Register a kernel that only kernels call; return it as it is.

    It is compiled as a part of those, for whole numbers of 64 bits whatever a call names: without
    what Python needs to call it, a separate cache, and a form for each number that is written into
    a call. That takes a fraction of the time. What is divided by 0 is not noticed.
    """
    _plain[function] = _in_python(function, views=False)
    _options[function] = {"cache": False, "nogil": True, "no_cpython_wrapper": True}
    _options[function] |= {"no_cfunc_wrapper": True, "no_rewrites": True, "error_model": "numpy"}
    _parts_only.add(function)
    return function


def ready(function: Callable[_P, _T], work: int) -> Callable[_P, _T]:
    """Return a kernel in the form for an amount of work: plain if little, else compiled.

    Parameters
    ----------
    function : function
        Decorated by `kernel`.
    work : int
        About how many steps the kernel takes: a byte of a record, a batch of a state.
    """
    if is_worth_it(work):
        return compile_kernel(function)
    plain: Callable[_P, _T] = _plain[function]
    return plain


def is_worth_it(work: int, count: bool = True) -> bool:
    """Whether to use compiled kernels for so many steps more: numba is loaded, or it pays now.

    Parameters
    ----------
    work : int
        Steps ahead.
    count : bool
        Add them to those of this process: many small batches are a large one.
    """
    global _steps, _are_compiled, is_left
    steps = _steps + work
    if count:
        _steps = steps
    if steps < WORTH_IT and "numba" not in sys.modules:
        return False
    if _are_compiled is not None:
        is_left, _are_compiled = not _are_compiled(), None
    return not is_left or steps >= WORTH_COMPILING


def leave_compiling(are_compiled: Callable[[], bool]) -> None:
    """Let `is_worth_it` ask, once there is enough work, whether kernels only have to be loaded."""
    global _are_compiled
    _are_compiled = are_compiled


def run_alone(function: Callable[[], None]) -> None:
    """Call a function with the lowest priority, unless another process does that."""
    import fcntl  # not on Windows

    os.nice(19)
    with Path(function.__code__.co_filename).open() as own, suppress(BlockingIOError):
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        function()


def begin_later(code: str) -> None:
    """Begin a process that outlives this one, and makes later ones faster."""
    import subprocess

    with suppress(OSError):  # later ones are slower, and try again
        subprocess.Popen(
            [sys.executable, "-c", code],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def compile_kernel(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return the compiled form of a kernel; numba compiles it when it is called."""
    if function not in _complete:
        with _lock:
            _form(function)
            _complete.update(_compiled)  # not before: until here some still call plain ones
    found: Callable[_P, _T] = _complete[function]
    return found


@contextmanager
def without_numba() -> Iterator[None]:
    """Let what is imported meanwhile believe that numba is not installed; no kernel is compiled."""
    with _lock:
        loaded = sys.modules.get("numba")
        # Python refuses to import what is None here; the type of `modules` does not know that.
        sys.modules["numba"] = None  # type: ignore[assignment]
        try:
            yield
        finally:
            del sys.modules["numba"]
            if loaded is not None:
                sys.modules["numba"] = loaded


def is_cached(function: Callable[..., Any]) -> bool:
    """Whether a kernel was compiled on this machine before; numba is not imported to find out."""
    source = Path(function.__code__.co_filename)
    if not source.exists():
        return False
    version = f"py{sys.version_info.major}{sys.version_info.minor}"  # each has its own
    stem = glob.escape(f"{source.stem}.{function.__qualname__}_{digest(function)}")
    changed = source.stat().st_mtime  # numba compiles again what a later source belongs to
    return any(
        found.stat().st_mtime >= changed
        for folder in _caches(source)
        for found in folder.glob(f"{stem}-*.{version}*.nbi")
    )


def _caches(source: Path) -> Iterator[Path]:
    """Yield the folders where numba may keep what it compiled of a file."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield from Path(named).glob("*/")
        return
    yield source.parent / "__pycache__"
    # Where it may not write beside the source.
    users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    yield from Path(users, "numba").glob("*/")


def _form(function: Any) -> Any:
    if function not in _compiled:
        _compile(function)
    return _compiled[function]


def _compile(function: Any) -> None:
    import numba

    scope = _compiled_globals(function.__globals__)
    if function not in _compiled:  # else it was made with the others of its module
        again = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        again.__qualname__ = f"{function.__qualname__}_{digest(function)}"
        if function in _parts_only:
            _compiled[function] = _as_part(numba.njit(**_options[function])(again))
            return
        try:
            _compiled[function] = numba.njit(pipeline_class=_whole(), **_options[function])(again)
            _remove_stale(again, _compiled[function].stats.cache_path)
        except (RuntimeError, OSError):  # numba finds no source to keep a cache beside
            _compiled[function] = numba.njit(**_options[function] | {"cache": False})(again)


def _as_part(dispatcher: Any) -> Any:
    """Let a dispatcher make one form, and no machine code but in its callers."""
    from numba import types

    template, customize = dispatcher.get_call_template, dispatcher._compiler._customize_flags

    def widened(kind: Any) -> Any:
        kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
        return types.int64 if isinstance(kind, types.Integer | types.Boolean) else kind

    def for_longs(arguments: Any, named: Any) -> Any:
        return template(tuple(map(widened, arguments)), named)

    def for_callers(flags: Any) -> Any:
        flags = customize(flags)
        flags.no_compile = True
        return flags

    def add(compiled_: Any) -> None:
        name = object()  # what numba would know its machine code by
        library = compiled_.library
        # numba links what a library calls into it, optimises that, and makes machine code of it:
        # in each caller once more. Here the kernel that Python calls links all, once; LLVM links
        # what is called by then, so what calls comes first.
        parts = list(dict.fromkeys([library, *library._linking_libraries]))
        library.finalize = partial(setattr, library, "_finalized", True)
        dispatcher.targetctx.insert_user_function(name, compiled_.fndesc, parts)
        _part_names.add(compiled_.fndesc.llvm_func_name)
        kinds = tuple(compiled_.signature.args)
        dispatcher.overloads[kinds] = compiled_._replace(entry_point=name)

    dispatcher.add_overload = add
    dispatcher.get_call_template = for_longs
    dispatcher._compiler._customize_flags = for_callers
    return dispatcher


@cache
def _whole() -> Any:
    """Return numba's compiler, which knows that only a kernel itself calls its parts.

    Then LLVM has no need to keep to how numba calls and returns, and puts what is called at one
    place there.
    """
    from numba.core.compiler import Compiler

    class Whole(Compiler):
        def define_pipelines(self) -> Any:
            state = self.state
            library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
            library.enable_object_caching()
            library._optimize_final_module = partial(_optimize, library)
            state.library = library
            # numba says nothing of types
            return super().define_pipelines()  # type: ignore[no-untyped-call]

    return Whole


def _optimize(library: Any) -> None:
    for function in library._final_module.functions:
        if function.name in _part_names:
            function.linkage = "internal"
    # Twice: only then it sees that no part fails, and drops what callers do about failures.
    for _ in range(2):
        type(library)._optimize_final_module(library)


def _remove_stale(function: FunctionType, folder: str | None) -> None:
    """Remove what was compiled of a kernel's earlier sources, unless this one is compiled already.

    Another process that still uses them has them in memory, or compiles them again.
    """
    stem = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
    if folder is None or any(Path(folder).glob(f"{glob.escape(stem)}-*.nbi")):
        return
    is_older = re.compile(re.escape(stem[:-_DIGEST]) + f"[0-9a-f]{{{_DIGEST}}}" + r"-.*\.nb[ic]")
    for path in Path(folder).glob(f"{glob.escape(stem[:-_DIGEST])}*.nb?"):
        is_own = path.name.startswith(f"{stem}-")  # of a process that began at the same time
        if is_older.fullmatch(path.name) and not is_own:
            with suppress(OSError):  # another process was faster, or may do it
                path.unlink()


def _compiled_globals(scope: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a module's globals with the compiled forms of its kernels."""
    if (known := _globals.get(id(scope))) is not None:
        return known
    again = _globals[id(scope)] = dict(scope)
    for name, value in scope.items():
        if isinstance(value, FunctionType) and value in _options:
            again[name] = _form(value)
        elif isinstance(value, ModuleType) and _has_kernels(value):
            again[name] = ModuleType(value.__name__)
            vars(again[name]).update(_compiled_globals(vars(value)))
    return again


def digest(function: Callable[..., Any]) -> str:
    """Return what changes with any source or number that is compiled into a kernel."""
    scope: dict[str, Any] = function.__globals__
    if id(scope) not in _digests:
        found = blake2b(digest_size=_DIGEST // 2)
        for part in sorted(set(_parts(scope, set()))):
            found.update(_source(part[1:]) if part[0] == "@" else part.encode())
        _digests[id(scope)] = found.hexdigest()
    return _digests[id(scope)]


def _source(path: str) -> bytes:
    """Return a module's source; where it is not a file, as in an archive, the version stands in."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return __version__.encode()


def _parts(scope: dict[str, Any], seen: set[int]) -> Iterator[str]:
    """Yield the files that a module's kernels are made of, as ``@path``, and its numbers."""
    if id(scope) in seen:
        return
    seen.add(id(scope))
    yield f"@{scope['__file__']}"
    package = scope["__name__"].partition(".")[0] + "."
    for name, value in scope.items():
        home = getattr(value, "__module__", None) or ""
        if isinstance(value, bool | int | float):
            yield f"{name}={value!r}"
        elif isinstance(value, FunctionType) and value in _options:
            yield from _parts(value.__globals__, seen)
        elif isinstance(value, ModuleType) and value.__name__.startswith(package):
            yield from _parts(vars(value), seen)
        elif callable(value) and not isinstance(value, type) and home.startswith(package):
            yield f"@{sys.modules[home].__file__}"  # an intrinsic


def _has_kernels(module: ModuleType) -> bool:
    values = list(vars(module).values())
    return any(isinstance(value, FunctionType) and value in _options for value in values)


def _in_python(function: Callable[..., Any], views: bool) -> Callable[..., Any]:
    """Return the plain form: sums beyond 64 bits wrap round silently, as they do compiled."""

    def run(*arguments: Any) -> Any:
        import numpy as np

        given = list(arguments)
        if views:
            given = [memoryview(x) if isinstance(x, np.ndarray) else x for x in given]  # type: ignore[arg-type]
        with np.errstate(over="ignore"):
            return function(*given)

    return run
