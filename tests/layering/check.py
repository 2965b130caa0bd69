#!/usr/bin/env python3
"""Checks who includes whom: the layers and rooms below, and CUDA's headers only where they are allowed. Checks that device code asks for
capabilities of a platform, and never which one it is.

    tests/layering/check.py [ROOT]
    tests/layering/check.py --rooms

Prints file:line and the reason for every line that breaks a rule, and exits with 1 if there is one. With --rooms, prints the table of
the runtime's rooms as docs/layout.md must have it.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

# The files of a layer, and those that it may include. `files` and `may` are prefixes of paths; paths in include/ and src/ are written as
# they are included. A file belongs to the first layer that matches. `others` says which headers from outside the tree are welcome.


class Layer(NamedTuple):
    files: tuple[str, ...]
    may: tuple[str, ...]
    others: str  # "none", "standard", "any"


DEVICE_API = ("dwell/device.hpp", "dwell/device/")
HOST_LAYERS = ("base/", "image/", "jit/", "backend/", "runtime/", "graph/", "orchestrator/", "tensor/", "observe/", "live/")
# Files of others, files for others, and their text.
FILES_AND_TEXT = ("base/file.hpp", "base/output_file.hpp", "base/utf8.hpp")
JIT_GROUND = ("base/", "jit/base/", "jit/compiler.hpp")

LAYERS = (
    # The platform of host compilers asks them for a clock and for vector types.
    Layer(("dwell/device/platform/cpu.hpp", "dwell/device/platform/cpu_atomic.hpp"), DEVICE_API, "standard"),
    Layer(DEVICE_API, DEVICE_API, "none"),
    Layer(("device/",), (*DEVICE_API, "device/"), "none"),
    Layer(("dwell/",), ("dwell/",), "standard"),
    # The ground of all layers.
    Layer(("base/",), ("base/", "dwell/error.hpp"), "standard"),
    # The format of the CPU's images: jit packs them, the CPU backend unpacks them.
    Layer(("image/",), ("base/", "image/", "dwell/"), "standard"),
    # jit's rooms, from the ground up. The host's compiler and CUDA's do not meet.
    Layer(("jit/base/",), ("base/", "jit/base/", "dwell/error.hpp"), "standard"),
    Layer(("jit/compiler.hpp",), ("dwell/",), "standard"),
    Layer(("jit/source/",), (*JIT_GROUND, "jit/source/", "dwell/"), "standard"),
    Layer(("jit/object/",), (*JIT_GROUND, "jit/object/", "dwell/"), "standard"),
    Layer(("jit/cache/",), (*JIT_GROUND, "jit/cache/", "jit/source/", "image/", "dwell/"), "standard"),
    Layer(("jit/host/",), (*JIT_GROUND, "jit/host/", "jit/source/", "jit/object/", "image/", "dwell/"), "standard"),
    Layer(("jit/cuda/",), (*JIT_GROUND, "jit/cuda/", "jit/source/", "jit/object/", "jit/cache/", "image/", "dwell/"), "standard"),
    Layer(("backend/backend.hpp",), ("device/", "dwell/"), "standard"),
    Layer(("backend/cpu/",), ("base/", "backend/backend.hpp", "backend/cpu/", "image/", "device/", "dwell/"), "standard"),
    Layer(("backend/cuda/",), ("base/", "backend/backend.hpp", "backend/cuda/", "device/", "dwell/"), "standard"),
    Layer(("backend/",), ("backend/", "device/", "dwell/"), "standard"),
    # The two places that name concrete backends and compilers: one makes them, one says what is there.
    Layer(("runtime/devices.cpp", "runtime/api/doctor.cpp"), ("base/", "runtime/", "backend/", "jit/", "device/", "dwell/"), "standard"),
    # {fmt}, where the standard library has no std::format.
    Layer(("runtime/observe/format_library.hpp",), (), "any"),
    # NVTX, which shows what the host does.
    Layer(("runtime/observe/nvtx.cpp",), ("runtime/observe/nvtx.hpp",), "any"),
    Layer(("runtime/",), ("base/", "live/", "runtime/", "backend/backend.hpp", "jit/", "image/", "device/", "dwell/"), "standard"),
    Layer(("graph/",), ("base/", "graph/", "live/", "runtime/", "device/", "dwell/"), "standard"),
    # Users of the library among its folders: they see no more than a program does.
    Layer(("orchestrator/",), ("base/", "orchestrator/", "dwell/"), "standard"),
    # Operators of tensors, in the text of which jit finds no more than in a user's.
    Layer(("tensor/device/",), (*DEVICE_API, "tensor/device/"), "none"),
    Layer(("tensor/",), ("base/", "tensor/", "dwell/"), "standard"),
    Layer(("observe/",), ("base/", "observe/", "dwell/"), "standard"),
    # Shows a process to others: the runtime hands it functions, so it need not see the runtime. A dead one has left the ring itself.
    Layer(("live/flight.", "live/ring_words."), ("base/", "live/", "device/", "dwell/"), "standard"),
    Layer(("live/",), ("base/", "live/", "dwell/"), "standard"),
    Layer(("tools/",), ("tools/", "bench/", *FILES_AND_TEXT, "live/", "dwell/"), "any"),
    Layer(("python/",), ("python/", "dwell/"), "any"),
    Layer(("exporter/",), ("exporter/", "observe/", "dwell/"), "any"),
    Layer(("portable/",), ("portable/",), "any"),
    Layer(("examples/",), ("examples/", "dwell/"), "standard"),
    Layer(
        ("bench/",),
        ("bench/", "base/relax.hpp", "base/output_file.hpp", "device/", "dwell/", "jit/base/temporary_directory.hpp"),
        "any",
    ),
    Layer(("tests/install/",), ("dwell/",), "standard"),
    # The benchmarks' own CUDA: users beside a runtime must not share the library's code.
    Layer(
        ("tests/gpu/",),
        (
            *("tests/", "bench/cuda_", "base/", "device/", "image/", "jit/", "backend/", "live/"),
            *("runtime/", "graph/", "orchestrator/", "dwell/"),
        ),
        "any",
    ),
    # What of dwell.torch needs no PyTorch.
    Layer(("tests/unit/torch_",), ("tests/", "python/dwell/torch/csrc/"), "any"),
    Layer(("tests/",), ("tests/", "device/", *HOST_LAYERS, "dwell/"), "any"),
)

# The rooms of src/runtime, and what each holds. A room includes itself and those before it, so that there is no circle. A room is a folder,
# or the files of one name beside the folders.
ROOMS = {
    "caught": "from any exception to an `Error`",
    "devices": "from the name of a device to its backend and compiler",
    "option_check": "options that are refused",
    "graphs": "execs by their place in memory; keeps alive those in flight",
    "device": "the arena, the ring, leases, and who is to blame when one fails; knows no operators",
    "generation": "where handles point: it outlives the runtime; how a runtime ends",
    "observe": "what the device notes, as the host reads it: metrics, traces, logs, the flight recorder",
    "program": "operators, from source to image",
    "kernels": "ordinary kernels beside the loop",
    "complete": "completions that the device does not tell itself",
    "memory": "buffers, and arguments that do not fit into the ring",
    "inspect": "the runtime's structures and variables of operators, as values",
    "watch": "who waits for whom",
    "tasks": "tasks as their tickets know them",
    "collect": "collections of the heap, and what the host holds of it",
    "core": "joins the rooms above: a runtime that is open",
    "generations": "opens runtimes, and again those that have lost their device",
    "api": "the implementation behind the public headers",
}
ORDER_OF_ROOMS = list(ROOMS)
ROOMS_PAGE = "docs/layout.md"
ROOMS_BEGIN = "<!-- rooms: tests/layering/check.py --rooms -->\n"
ROOMS_END = "<!-- /rooms -->\n"


def room_of(name: str) -> str | None:
    """The room of a file of src/runtime, by the name by which it is included."""
    if not name.startswith("runtime/"):
        return None
    return name.split("/")[1].split(".")[0]


def table_of_rooms() -> str:
    rows = "".join(f"| `{room}` | {holds} |\n" for room, holds in ROOMS.items())
    return f"| room | holds |\n|---|---|\n{rows}"


def fault_of_rooms(name: str, target: str) -> str | None:
    """Why a file of one room must not include one of another, or None."""
    room, other = room_of(name), room_of(target)
    if room is None or other is None or room == other:
        return None
    for one in (room, other):
        if one not in ROOMS:
            return f"{one} is no room of src/runtime that tests/layering/check.py knows"
    if ORDER_OF_ROOMS.index(other) > ORDER_OF_ROOMS.index(room):
        return f"the room {other} stands on {room}, which must not include it"
    return None


# The concrete compilers and backends; the runtime sees only the contracts.
CONCRETE = re.compile(r"^(jit/(host|cuda)|backend/(cpu|cuda))/")

CUDA_HEADER = re.compile(r"^(cuda\w*\.h|cuda/.*|nvrtc\.h|nvJitLink\.h|nvml\.h|cooperative_groups\.h)$")
CUDA_ALLOWED = re.compile(r"^(backend/cuda/|jit/cuda/|bench/cuda_|tests/(gpu|headers)/)")

# Headers of C++ and of the system: <vector>, <sys/mman.h>; a library's own headers look different, but for the named few.
STANDARD_HEADER = re.compile(r"^([a-z_]+|(sys|linux|asm)/\w+\.h|[a-z]+\.h)$")
LIBRARY_HEADER = re.compile(r"^(png|jpeglib|zlib)\.h$")

# Device code in which a platform's own name may stand.
PLATFORMS = ("dwell/device/platform.hpp", "dwell/device/platform/", "dwell/device/atomic.hpp")
DEVICE_CODE = ("dwell/device.hpp", "dwell/device/", "device/", "tensor/device/")
PLATFORM_NAME = re.compile(r"\b(DWELL_ON_CUDA|__CUDACC__|__CUDA_ARCH__|__CUDACC_DEBUG__|__x86_64__|__aarch64__|__clang__)\b")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
OURS = ("dwell/", "device/", *HOST_LAYERS, "tools/", "python/", "exporter/", "portable/", "examples/", "bench/", "tests/")


def included_name(path: Path, root: Path) -> str:
    """The name by which a file of the tree is included."""
    for base in (root / "include", root / "src", root):
        if path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    raise ValueError(path)


def layer_of(name: str) -> Layer | None:
    return next((layer for layer in LAYERS if name.startswith(layer.files)), None)


def fault(name: str, target: str, ours: bool) -> str | None:
    """Why `name` must not include `target`, or None. `ours`: the target is a file of the tree."""
    if CUDA_HEADER.match(target):
        return None if CUDA_ALLOWED.match(name) else "CUDA's headers are for src/backend/cuda and src/jit/cuda"
    layer = layer_of(name)
    if layer is None:
        return "the file lies in no layer that tests/layering/check.py knows"
    if name.endswith(".test.cpp"):
        return None  # a unit test may take any layer to set its scene
    if ours:
        if not target.startswith(layer.may):
            return f"{layer.files[0]} may include only {', '.join(layer.may)}"
        if reason := fault_of_rooms(name, target):
            return reason
        if name.startswith("runtime/") and name not in ("runtime/devices.cpp", "runtime/api/doctor.cpp") and CONCRETE.match(target):
            return "the runtime sees backends and compilers only through their contracts"
        return None
    if layer.others == "none":
        return f"{layer.files[0]} is compiled by NVRTC and includes nothing from outside"
    if layer.others == "standard" and (not STANDARD_HEADER.match(target) or LIBRARY_HEADER.match(target)):
        return f"{layer.files[0]} includes nothing but the standard library and the system"
    return None


def check(root: Path) -> list[str]:
    faults = []
    folders = ("include", "src", "tools", "python", "exporter", "portable", "examples", "bench", "tests")
    paths = sorted(p for folder in folders for suffix in ("hpp", "cpp", "h") for p in (root / folder).rglob(f"*.{suffix}"))
    for path in paths:
        name = included_name(path, root)
        asks = name.startswith(DEVICE_CODE) and not name.startswith(PLATFORMS) and not name.endswith(".test.cpp")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if asks and (platform := PLATFORM_NAME.search(line)):
                faults.append(f"{path.relative_to(root)}:{number}: {platform.group()}: ask for a capability that {PLATFORMS[0]} lists")
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            beside = path.parent / target
            ours = target.startswith(OURS) or (quote == '"' and beside.exists())
            if ours and not target.startswith(OURS):
                target = included_name(beside.resolve(), root)
            reason = fault(name, target, ours)
            if reason:
                faults.append(f"{path.relative_to(root)}:{number}: includes {target}: {reason}")
    page = root / ROOMS_PAGE
    if page.exists():
        text = page.read_text(encoding="utf-8")
        if ROOMS_BEGIN + table_of_rooms() + ROOMS_END not in text:
            faults.append(f"{ROOMS_PAGE}: the table of rooms is not the one that tests/layering/check.py --rooms prints")
    return faults


def main() -> int:
    if sys.argv[1:] == ["--rooms"]:
        print(table_of_rooms(), end="")
        return 0
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0 if len(sys.argv) == 2 else 2
    root = Path(sys.argv[1] if len(sys.argv) == 2 else Path(__file__).parents[2]).resolve()
    faults = check(root)
    for line in faults:
        print(line, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
