"""The package as users install it: the wheel of script/wheel, and `pip install .`, each in an empty environment. Compiled files come from
this test's build folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import dwell
import pytest

ROOT = Path(__file__).parents[2]
BUILD = Path(dwell.__file__).parents[2]
PACKAGES = Path(pytest.__file__).parents[1]  # of the environment that runs the tests

CACHE = BUILD / "CMakeCache.txt"

pytestmark = pytest.mark.skipif(
    not CACHE.exists() or "DWELL_PORTABLE:BOOL=ON" not in CACHE.read_text(), reason="dwell is not that of a build of the preset release"
)

# Uses the package alone: no NumPy, an empty cache.
PROGRAM = """
import array, importlib.metadata, importlib.util, pathlib, sys
import dwell

assert importlib.util.find_spec("numpy") is None
package = pathlib.Path(dwell.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").exists() and (package / "_dwell.pyi").exists()
assert importlib.metadata.version("dwell") == dwell.__version__
assert {e.value for e in importlib.metadata.entry_points(group="torch_dynamo_backends")} == {"dwell.torch:backend"}

with dwell.Runtime("cpu", workers=2) as rt:
    axpy = rt.define("axpy", '''
DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {
  g.transform(y, [=](float b, float c) { return a * b + c; }, x, y);
}''')
    x, y = rt.array(array.array("f", [1, 2, 3])), rt.array(array.array("f", [10, 20, 30]))
    axpy(2.0, x, y).wait()
    assert memoryview(y).tolist() == [12, 24, 36]
    lazy = dwell.asarray(y, runtime=rt)
    lazy += lazy * 2
    rt.flush().wait()
    assert memoryview(y).tolist() == [36, 72, 108]
print(dwell.__version__)
"""


def run(*command, **environment) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, cwd="/", env={**clean, **environment})


def succeed(*command, **environment) -> str:
    done = run(*command, **environment)
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def empty_environment(folder) -> Path:
    """Creates an environment and returns its Python."""
    succeed(sys.executable, "-m", "venv", folder)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = run(ROOT / "script/wheel", "--no-install", "--prebuilt", BUILD, "--output", folder)
    print(done.stdout, done.stderr)  # says what is too new for the tag
    assert done.returncode == 0
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    python = empty_environment(tmp_path_factory.mktemp("installed"))
    succeed(python, "-m", "pip", "install", "--quiet", "--no-index", wheel)
    return python


def test_the_wheel_is_for_glibc_2_28(wheel):
    assert re.fullmatch(rf"dwell-{re.escape(dwell.__version__)}-(cp\d+)-\1-(\w+\.)?manylinux_2_28_x86_64\.whl", wheel.name)


def test_the_wheel_needs_nothing_else(installed, tmp_path):
    assert succeed(installed, "-c", PROGRAM, XDG_CACHE_HOME=str(tmp_path)).strip() == dwell.__version__


def test_the_wheel_has_the_tool(installed, tmp_path):
    if not (BUILD / "dwell").exists():
        pytest.skip("the tool was not built")
    for command in ([installed.parent / "dwell"], [installed, "-m", "dwell"]):
        assert succeed(*command, "--version", PATH=str(tmp_path)) == f"dwell {dwell.__version__}\n"
    assert "ran a task" in succeed(installed.parent / "dwell", "doctor", XDG_CACHE_HOME=str(tmp_path))
    assert succeed(installed, "-c", "import dwell; print(dwell.build_info().tool)") == "True\n"


def test_pytorch_finds_the_backend_by_its_name(installed, tmp_path):
    """Turns off the extension, which takes a minute to build for each installation."""
    pytest.importorskip("torch")
    program = """
import torch
compiled = torch.compile(lambda x: torch.relu(x * 2 - 5), backend="dwell")
print(compiled(torch.arange(4.0)).tolist())
import dwell, sys
assert "dwell.torch" in sys.modules and dwell.__file__.startswith(sys.prefix)
"""
    output = succeed(installed, "-c", program, DWELL_TORCH="off", PYTHONPATH=str(PACKAGES), XDG_CACHE_HOME=str(tmp_path))
    assert output == "[0.0, 0.0, 0.0, 1.0]\n"


def test_pip_install_from_the_source_tree(tmp_path):
    """Builds in pip's own environment with the requirements of pyproject.toml. Leaves out the tool: a library it needs is not found."""
    python = empty_environment(tmp_path / "environment")
    requirements = re.search(r"requires = \[(.*)\]", (ROOT / "pyproject.toml").read_text())[1].replace('"', "").split(", ")
    if run(python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", tmp_path / "requirements", *requirements).returncode != 0:
        pytest.skip("no index has what the build needs")
    missing = "cmake.define.CMAKE_DISABLE_FIND_PACKAGE_CLI11=ON"
    settings = [f"build-dir={tmp_path / 'build'}", f"cmake.define.DWELL_PREBUILT={BUILD}", missing]
    options = [f"--config-settings={setting}" for setting in settings]
    succeed(python, "-m", "pip", "install", "--quiet", *options, ROOT)
    assert succeed(python, "-c", "import dwell; print(dwell.devices()[-1].device)") == "cpu\n"
    why = "CLI11 not found when it was built; apt install libcli11-dev, or script/bootstrap, and build again"
    assert succeed(python, "-c", "import dwell; print(dwell.build_info().left_out['tool'])") == f"{why}\n"
    for command in ([python.parent / "dwell"], [python, "-m", "dwell"]):
        done = run(*command, "doctor", PATH=str(python.parent))
        assert (done.returncode, done.stderr) == (2, f"dwell: the command line tool is neither in this package nor on PATH: {why}\n")
