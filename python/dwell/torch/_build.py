"""Finds the extension for the PyTorch that is installed: a wheel may hold it, else it is built once, with the host's compiler."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

_PACKAGE = Path(__file__).parent.parent
_LIBRARY = _PACKAGE / "lib" / "libdwell.a"
_SOURCES = Path(__file__).resolve().parent / "csrc"
_PREBUILT = Path(__file__).resolve().parent / "prebuilt"

# Seconds of a core to compile a source, beyond the 5 for PyTorch's headers; and the memory of a compiler.
_SECONDS = {
    "rows": 7.0,
    "elementwise": 6.5,
    "elementwise_unary": 5.5,
    "elementwise_arithmetic": 5.5,
    "python_tensor": 5.0,  # headers of Python's side, which no other source includes
    "elementwise_binary": 4.5,
    "elementwise_backward": 4.5,
    "products": 3.5,
    "interface": 2.5,
    "layer_norm": 2.5,
    "recording": 2.5,
    "fast_path": 2.0,
    "resident_step": 2.0,
    "resident_type": 2.0,
}
_OTHERS_SECONDS = 1.5
_BYTES_OF_A_COMPILER = 2 << 30


class BuildError(RuntimeError):
    """The extension cannot be built; the text says what is missing, or what the compiler wrote."""


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        if name and (found := shutil.which(name)):
            return found
    raise BuildError("dwell.torch is built when it is first imported, and no C++ compiler is on the PATH: install g++, or name one in $CXX")


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dwell" / "torch"


def _compilation(compiler: str) -> list[str]:
    """The command that compiles a source, up to its name."""
    root = Path(torch.__file__).resolve().parent
    python = sysconfig.get_path("include")  # where Python's headers are missing, calls from Python take the dispatcher's way
    includes = [_SOURCES, _PACKAGE / "include", root / "include", root / "include" / "torch" / "csrc" / "api" / "include", python]
    return [
        compiler,
        "-std=c++20",
        "-O2",
        "-DNDEBUG",  # as PyTorch itself is compiled: its headers check more without
        "-DAT_PER_OPERATOR_HEADERS",  # likewise: its headers include the operations that they name, not all
        "-fPIC",
        "-w",
        "-fvisibility=hidden",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *(f"-I{path}" for path in includes),
        "-c",
    ]


def _linking(compiler: str, objects: list[Path], target: Path, movable: bool) -> list[str]:
    """`movable`: for PyTorch in any folder. Its libraries are loaded before the extension in any case."""
    root = Path(torch.__file__).resolve().parent
    libraries = ["-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl", "-lpthread"]
    return [
        compiler,
        "-shared",
        *map(str, objects),
        str(_LIBRARY),
        "-Wl,--exclude-libs,ALL",
        f"-L{root / 'lib'}",
        *([] if movable else [f"-Wl,-rpath,{root / 'lib'}"]),
        *libraries,
        "-o",
        str(target),
    ]


def _key(compiler: str) -> str:
    """What the extension follows from: its sources, the library, PyTorch and the compiler."""
    digest = hashlib.sha256()
    digest.update("\0".join([*_compilation(compiler), *_linking(compiler, [], Path(), movable=False), torch.__version__]).encode())
    digest.update(subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout)
    for path in sorted(_SOURCES.iterdir()):
        digest.update(path.read_bytes())
    status = _LIBRARY.stat()
    digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()[:24]


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"dwell.torch cannot be built for PyTorch {torch.__version__} with {command[0]}:\n{result.stderr[-4000:]}")


def _processors() -> int:
    """Compilers to run at once: one a core, as far as the memory suffices."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores, memory // _BYTES_OF_A_COMPILER))


def _shares(names: list[str], count: int) -> list[list[str]]:
    """Splits the sources into shares that take about as long as each other. Few large shares read PyTorch's headers less often."""
    shares: list[list[str]] = [[] for _ in range(min(count, len(names)))]
    seconds = [0.0] * len(shares)
    for name in sorted(names, key=lambda name: (-_SECONDS.get(name, _OTHERS_SECONDS), name)):
        least = seconds.index(min(seconds))
        shares[least].append(name)
        seconds[least] += _SECONDS.get(name, _OTHERS_SECONDS)
    return shares


def _units(folder: str) -> list[Path]:
    """The sources to compile, the longest first: each includes a share of those of the extension."""
    units = []
    for number, share in enumerate(_shares([source.stem for source in _SOURCES.glob("*.cpp")], _processors())):
        unit = Path(folder) / f"unit_{number}.cpp"
        unit.write_text("".join(f'#include "{_SOURCES / name}.cpp"\n' for name in sorted(share)))
        units.append(unit)
    return units


def _make(compiler: str, target: Path, movable: bool = False) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        sources = _units(folder)
        objects = [Path(folder) / f"{source.stem}.o" for source in sources]
        commands = [[*_compilation(compiler), str(source), "-o", str(made)] for source, made in zip(sources, objects, strict=True)]
        with ThreadPoolExecutor(len(commands)) as pool:
            list(pool.map(_run, commands))
        made = Path(folder) / target.name
        _run(_linking(compiler, objects, made, movable))
        made.rename(target)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _release() -> str:
    """The name of the extension for this release of PyTorch, for CPUs and for GPUs, and this Python."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"dwell_torch-{torch.__version__.partition('+')[0]}-{python}-abi{int(torch._C._GLIBCXX_USE_CXX11_ABI)}.so"


def prebuild(folder: Path) -> Path:
    """Builds the extension for any machine with this release of PyTorch and this Python, to be packed as `dwell/torch/prebuilt`."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / _release()
    _make(_compiler(), target, movable=True)
    return target


def build() -> Path:
    """The extension's path. Compiles when the package has none for this PyTorch and none is there for these sources, this PyTorch and this
    compiler: that takes 80 seconds of cores together, of one source 13 at most."""
    if (prebuilt := _PREBUILT / _release()).exists():
        return prebuilt
    if not _LIBRARY.exists():
        raise BuildError(f"dwell.torch is built with the library in {_LIBRARY}, which this installation of dwell does not have")
    compiler = _compiler()
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"dwell_torch-{_key(compiler)}.so"
    if target.exists():
        return target
    with _locked(folder):
        if not target.exists():
            print(
                f"dwell.torch: building the extension for PyTorch {torch.__version__}, once: less than a minute on two cores",
                file=sys.stderr,
            )
            begin = time.monotonic()
            _make(compiler, target)
            print(f"dwell.torch: built in {time.monotonic() - begin:.0f} s: {target}", file=sys.stderr)
    return target
