"""Kernels: plain functions that are compiled if there is enough work to justify it.

A kernel is written once. `kernel` registers the function and returns it unchanged, so kernels can
call each other in plain Python, and importing one does not import numba:

    @kernel
    def total(values: Any) -> Any:
        found = 0
        for k in range(values.size):
            found += doubled(values[k])  # another kernel, of this module or of another one
        return found

`ready` chooses the form by the amount of work:

    ready(total, work=values.size)(values)

Kernels are compiled in a copy of the module's globals, in which every kernel is its compiled form.
numba caches compiled code beside the source, and invalidates it by the modification time of that
file only. A kernel contains code of other modules, and an installed wheel may have the same times
as its predecessor, so the names of compiled kernels end with a digest of all their sources. When a
kernel is compiled again, the cached code of older sources is removed.

Both forms of a kernel must compute the same. In plain Python, numbers read from arrays are numpy
scalars, which keep their type; numba widens them to 64 bits. With ``views=True``, the plain form of
a kernel that only indexes its arrays takes memoryviews, whose items are Python numbers: twice as
fast.
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

#: Steps of plain Python that take as long as loading numba and a cached kernel: half a second of a
#: core.
WORTH_IT = 500_000
#: Steps of plain Python that take as long as compiling the kernels: the demo's 17 million take 6 s
#: of a core, and compiling the kernels for them 36 s.
WORTH_COMPILING = 100_000_000

#: Length of a digest in hexadecimal digits.
_DIGEST = 12

_lock = threading.RLock()
_options: dict[Any, dict[str, Any]] = {}
_plain: dict[Any, Any] = {}
_compiled: dict[Any, Any] = {}
_complete: dict[Any, Any] = {}
_parts_only: set[Any] = set()
_part_names: set[str] = set()  # in LLVM
_globals: dict[int, dict[str, Any]] = {}
_digests: dict[int, str] = {}
_steps = 0  # of all work so far
_deferred: tuple[Callable[[], bool], str] | None = None
_begun: list[Any] = []  # processes
#: Whether this process uses plain kernels for less than `WORTH_COMPILING`: none were compiled.
is_left = False


@overload
def kernel(function: Callable[_P, _T], /) -> Callable[_P, _T]: ...
@overload
def kernel(
    *, views: bool = ..., **options: Any
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]: ...
def kernel(function: Any = None, /, *, views: bool = False, **options: Any) -> Any:
    """Register a function as a kernel, and return it unchanged.

    Parameters
    ----------
    function : function
    views : bool
        Whether `ready` passes memoryviews instead of arrays to the plain form.
    **options
        Options of ``numba.njit``, such as ``inline="always"``. By default the result is cached,
        and the interpreter lock is released.
    """
    if function is None:
        return partial(kernel, views=views, **options)
    _plain[function] = _in_python(function, views)
    _options[function] = {"cache": True, "nogil": True} | options
    return function


def part(function: Callable[_P, _T], /) -> Callable[_P, _T]:
    """Register a kernel that only kernels call, and return it unchanged.

    It is compiled into its callers, with all integers widened to 64 bits. It has no wrapper for
    calls from Python, no separate cache, and no specialization for literal arguments, so compiling
    takes a fraction of the time. Division by zero is not detected.
    """
    _plain[function] = _in_python(function, views=False)
    _options[function] = {"cache": False, "nogil": True, "no_cpython_wrapper": True}
    _options[function] |= {"no_cfunc_wrapper": True, "no_rewrites": True, "error_model": "numpy"}
    _parts_only.add(function)
    return function


def parts(scope: dict[str, Any]) -> None:
    """Register the functions of a module as parts; its last line calls this with ``globals()``."""
    for one in list(scope.values()):
        if isinstance(one, FunctionType) and one.__globals__ is scope:
            part(one)


def ready(function: Callable[_P, _T], work: int) -> Callable[_P, _T]:
    """Return a kernel in the form for an amount of work: plain for little, compiled for more.

    Parameters
    ----------
    function : function
        Decorated by `kernel`.
    work : int
        Approximate number of steps of the kernel: bytes of records, batches of a state.
    """
    if is_worth_it(work):
        return compile_kernel(function)
    plain: Callable[_P, _T] = _plain[function]
    return plain


def is_worth_it(work: int, count: bool = True) -> bool:
    """Return whether to use compiled kernels for more steps: numba is loaded, or worth loading.

    Parameters
    ----------
    work : int
        Number of further steps.
    count : bool
        Add them to the steps of this process: many small batches amount to a large one.
    """
    global _steps, _deferred, is_left
    steps = _steps + work
    if count:
        _steps = steps
    if steps < WORTH_IT and "numba" not in sys.modules:
        return False
    if (deferred := _deferred) is not None:
        _deferred, (are_compiled, code) = None, deferred
        if is_left := not are_compiled():
            begin_later(code)
    return not is_left or steps >= WORTH_COMPILING


def defer_compiling(are_compiled: Callable[[], bool], code: str) -> None:
    """Let `is_worth_it` check, once there is enough work, whether kernels are compiled already.

    If not, another process runs the code that compiles them, and this one uses plain kernels.
    """
    global _deferred
    _deferred = are_compiled, code


def run_alone(function: Callable[[], None]) -> None:
    """Compile for later processes with the lowest priority, unless another process is at it."""
    import fcntl  # not on Windows

    os.nice(19)
    source, named = Path(function.__code__.co_filename), os.environ.get("NUMBA_CACHE_DIR")
    homes = [Path(named)] if named else [source.parent, Path.home()]
    # Where numba cannot cache, no later process would gain by it.
    there = (next(filter(Path.exists, (one, *one.parents))) for one in homes)
    if not any(os.access(one, os.W_OK | os.X_OK) for one in there):
        return
    with source.open() as own, suppress(BlockingIOError):
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        function()


@cache  # once in a process
def begin_later(code: str) -> None:
    """Start a process that outlives this one and speeds up later ones."""
    import subprocess

    with suppress(OSError):  # later processes are slower, and try again
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _begun.append(process)  # Popen warns if it is collected while its process runs


def compile_kernel(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return the compiled form of a kernel; numba compiles it at the first call."""
    if function not in _complete:
        with _lock:
            _form(function)
            _complete.update(_compiled)  # not earlier: until here some call plain kernels
    found: Callable[_P, _T] = _complete[function]
    return found


@contextmanager
def without_numba() -> Iterator[None]:
    """Hide numba from modules imported in this context; no kernel is compiled."""
    with _lock:
        loaded = sys.modules.get("numba")
        # None makes an import fail, which the type of `modules` does not allow.
        sys.modules["numba"] = None  # type: ignore[assignment]
        try:
            yield
        finally:
            del sys.modules["numba"]
            if loaded is not None:
                sys.modules["numba"] = loaded


def is_cached(function: Callable[..., Any]) -> bool:
    """Return whether a kernel was compiled on this machine before, without importing numba."""
    source = Path(function.__code__.co_filename)
    if not source.exists():
        return False
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    stem = glob.escape(f"{source.stem}.{function.__qualname__}_{digest(function)}")
    changed = source.stat().st_mtime  # numba ignores compiled code of an earlier source
    return any(
        found.stat().st_mtime >= changed
        for folder in _caches(source)
        for found in folder.glob(f"{stem}-*.{version}*.nbi")
    )


def _caches(source: Path) -> Iterator[Path]:
    """Yield the folders in which numba may cache the compiled code of a file."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield from Path(named).glob("*/")
        return
    yield source.parent / "__pycache__"
    # Used if the source's folder is not writable.
    users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    yield from Path(users, "numba").glob("*/")


def _form(function: Any) -> Any:
    if function not in _compiled:
        _compile(function)
    return _compiled[function]


def _compile(function: Any) -> None:
    import numba

    scope = _compiled_globals(function.__globals__)
    if function not in _compiled:  # it may have been compiled with others of its module
        again = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        again.__qualname__ = f"{function.__qualname__}_{digest(function)}"
        if function in _parts_only:
            _compiled[function] = _as_part(numba.njit(**_options[function])(again))
            return
        try:
            _compiled[function] = numba.njit(pipeline_class=_whole(), **_options[function])(again)
            _remove_stale(again, _compiled[function].stats.cache_path)
        except (RuntimeError, OSError):  # numba finds no folder for its cache
            _compiled[function] = numba.njit(**_options[function] | {"cache": False})(again)


def _as_part(dispatcher: Any) -> Any:
    """Make a dispatcher compile a single signature, with machine code only in its callers."""
    from numba import types

    template, customize = dispatcher.get_call_template, dispatcher._compiler._customize_flags

    def widen(kind: Any) -> Any:
        kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
        return types.int64 if isinstance(kind, types.Integer | types.Boolean) else kind

    def for_longs(arguments: Any, named: Any) -> Any:
        return template(tuple(map(widen, arguments)), named)

    def for_callers(flags: Any) -> Any:
        flags = customize(flags)
        flags.no_compile = True
        return flags

    def add(compiled_: Any) -> None:
        name = object()  # the key of its machine code in numba
        library = compiled_.library
        # numba links called libraries into each library, optimises it and generates its machine
        # code, again in each caller. Here only the kernel that Python calls links them all, once.
        # LLVM links what has been called before, so callers come first.
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
    """Return numba's compiler, changed so that parts are internal to the kernel that calls them.

    LLVM can then ignore numba's calling convention for them, and inline those called once.
    """
    from numba.core.compiler import Compiler

    class Whole(Compiler):
        def define_pipelines(self) -> Any:
            state = self.state
            library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
            library.enable_object_caching()
            library._optimize_final_module = partial(_optimize, library)
            state.library = library
            # numba has no annotations
            return super().define_pipelines()  # type: ignore[no-untyped-call]

    return Whole


def _optimize(library: Any) -> None:
    for function in library._final_module.functions:
        if function.name in _part_names:
            function.linkage = "internal"
    # The second pass finds that no part fails, and drops the callers' error handling.
    for _ in range(2):
        type(library)._optimize_final_module(library)


def _remove_stale(function: FunctionType, folder: str | None) -> None:
    """Remove compiled code of a kernel's earlier sources, unless the current one is compiled.

    A process that still uses it has it in memory, or compiles it again.
    """
    stem = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
    if folder is None or any(Path(folder).glob(f"{glob.escape(stem)}-*.nbi")):
        return
    is_older = re.compile(re.escape(stem[:-_DIGEST]) + f"[0-9a-f]{{{_DIGEST}}}" + r"-.*\.nb[ic]")
    for path in Path(folder).glob(f"{glob.escape(stem[:-_DIGEST])}*.nb?"):
        is_own = path.name.startswith(f"{stem}-")  # of a process that started at the same time
        if is_older.fullmatch(path.name) and not is_own:
            with suppress(OSError):  # another process was faster, or it is not permitted
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
    """Return a digest of all sources and numbers that are compiled into a kernel."""
    scope: dict[str, Any] = function.__globals__
    if id(scope) not in _digests:
        found = blake2b(digest_size=_DIGEST // 2)
        for part in sorted(set(_parts(scope, set()))):
            found.update(_source(part[1:]) if part[0] == "@" else part.encode())
        _digests[id(scope)] = found.hexdigest()
    return _digests[id(scope)]


def _source(path: str) -> bytes:
    """Return a module's source, or the package's version if it is not a file (in an archive)."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return __version__.encode()


def _parts(scope: dict[str, Any], seen: set[int]) -> Iterator[str]:
    """Yield the source files of a module's kernels, as ``@path``, and its numbers."""
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
    """Return the plain form, whose integers wrap around at 64 bits silently, as compiled ones."""

    def run(*arguments: Any) -> Any:
        import numpy as np

        given = list(arguments)
        if views:
            given = [memoryview(x) if isinstance(x, np.ndarray) else x for x in given]  # type: ignore[arg-type]
        with np.errstate(over="ignore"):
            return function(*given)

    return run
