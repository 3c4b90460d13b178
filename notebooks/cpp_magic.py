"""Cells in C++ and CUDA for a Python notebook: `%load_ext cpp_magic`, then

    %%cpp                      statements, or a program with includes and main, compiled against the headers and run
    %%cpp --student            with a student's headers before the library's
    %%cpp --fast               optimized for this machine (-O3 -march=native, all cores), for cells that measure time
    %%cuda                     a cell with kernels, compiled by nvcc for a GPU, or by g++ for the emulator if there is no GPU
    %%cuda --emulator --count  on the emulator even if there is a GPU; prints its table of memory traffic

A cell of statements includes tinytorch.hpp; a cell that needs layers or data must be a program with its own includes. A cell is linked
with the compiled library. With --fast it is not: it includes only the headers that it names, whose functions are compiled with it and
optimized. Errors name the line of the cell. Lines `{"x": 1, ...}` that a program prints are returned as a list of dictionaries, for plots.

An unchanged cell is not compiled again. build/notebook keeps the objects of the last cells; objects of the library are shared with
`modules/tt check`.
"""
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
from pathlib import Path

ROOT = next((p for p in [Path(os.environ.get("TINYTORCH", "/nowhere")), *Path(__file__).resolve().parents]
             if (p / "include" / "tinytorch").is_dir()), None)
HEADER = """#include <cstdio>
#include <iostream>
#include <tinytorch/io/print.hpp>
#include <tinytorch/tinytorch.hpp>
namespace tt = tinytorch;
"""
FAST_HEADER = """#include <algorithm>
#include <cstdio>
#include <iostream>
#include <vector>
namespace tinytorch {}
namespace tt = tinytorch;
"""
CUDA_HEADER = """#include <cstdio>
#include <vector>
#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
using namespace tinytorch;
using namespace tinytorch::backend;
using namespace tinytorch::backend::cuda;
"""


def program(cell, header):
    """The cell as a program; a cell without `main` becomes the body of main."""
    whole = re.search(r"^\s*int\s+main\s*\(", cell, re.M)
    if whole:
        return f'{header}#line 1 "cell"\n{cell}\n'
    return f'{header}int main() {{\n#line 1 "cell"\n{cell}\n}}\n'


class Failed(Exception):
    """An error of a cell. A notebook shows it without Python's traceback, which has no information about C++ code."""

    def _render_traceback_(self):
        return [str(self)]


def complain(what, done):
    """Raises Failed with the lines of output from the first error in the cell on."""
    lines = done.text.splitlines()
    at = next((i for i, l in enumerate(lines) if re.search(r"^cell[:(]\d+.*error", l)),
              next((i for i, l in enumerate(lines) if re.search("error|cannot find|undefined reference|multiple definition", l)), 0))
    raise Failed(f"{what} ended with {done.code}\n" + "\n".join(lines[at:at + 12]))


FLAGS = ("--student", "--fast", "--emulator", "--count")
SECONDS = 600  # time limit of a cell
KEPT = 200     # each folder keeps so many files of cells


def forget_old_cells(*folders):
    for folder in folders:
        try:
            for old in sorted(folder.glob("*"), key=lambda p: p.stat().st_mtime)[:-KEPT]:
                old.unlink()
        except OSError:
            pass  # another notebook has deleted the file


def build_and_run(cell, flags, cuda):
    unknown = set(flags) - set(FLAGS)
    if unknown:
        raise Failed(f"unknown flags: {' '.join(sorted(unknown))}; the flags are {', '.join(FLAGS)}")
    if cuda and "--fast" in flags:
        raise Failed("--fast is for %%cpp only: nvcc optimizes every cell, and the emulator counts but does not measure time")
    if str(ROOT / "modules") not in sys.path:
        sys.path.insert(0, str(ROOT / "modules"))
    import course
    import tools
    shop = course.Workshop(ROOT / "build" / "notebook", tools.call, common=course.COMMON)
    student = sorted(ROOT.glob("modules/[0-9][0-9]_*/student"), reverse=True) if "--student" in flags else []
    for path in (p for folder in student for p in folder.glob("tinytorch/**/*.[hc]*")):
        if course.frame_of(path.relative_to(next(f for f in student if f in path.parents))):
            raise Failed(f"{path.relative_to(ROOT)} has the form of an earlier version: `modules/tt migrate "
                         f"{path.relative_to(ROOT / 'modules').parts[0][:2]}` moves your functions to the new form, and keeps a dated copy")
    gpu = cuda and "--emulator" not in flags and tools.program_version("nvcc") and tools.program_version("nvidia-smi", "-L")
    device = "cuda" if gpu else "sim" if cuda else "cpu"
    fast = "--fast" in flags
    optimize = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"] if fast else ["-O1", "-DTINYTORCH_COMPILED"]
    own = {"cpu": optimize, "sim": course.COUNTED_FLAGS, "cuda": []}[device]
    flags_of_cell = shop.nvcc_flags(student) if gpu else [*shop.base_flags(device), "-w", *own, *shop.include_flags(student)]
    text = program(cell, CUDA_HEADER if cuda else FAST_HEADER if fast else HEADER)
    name = f"cells/{hashlib.sha256(repr((text, flags_of_cell)).encode()).hexdigest()[:16]}"
    source = shop.generated(name + (".cu" if gpu else ".cpp"), text)
    jobs = [(source, name + ".o", flags_of_cell, *(["nvcc"] if gpu else []))]
    if device != "cpu":
        jobs += shop.runtime(device)
    elif not fast:
        jobs += shop.library(student, [part for part in course.PARTS if part != "linalg" or part in text], device)
    failed, objects = shop.build(jobs)
    if failed:
        complain("the compiler", failed)
    os.utime(objects[0])
    forget_old_cells(shop.folder / "cells", shop.folder / "generated" / "cells")
    with tempfile.TemporaryDirectory() as folder:
        failed = shop.link(objects, Path(folder) / "cell", device, ["-lfmt", *(["-fopenmp"] if fast else [])])
        if failed:
            complain("the linker", failed)
        env = dict(os.environ, TINYTORCH_SIM_COUNT="1" if "--count" in flags else "0")
        done = tools.call([Path(folder) / "cell"], SECONDS, env=env)
    if done.timed_out:
        raise Failed(f"{done.text}\nthe program was stopped after {SECONDS} s")
    if done.code != 0:
        raise Failed(f"{done.text}\nthe program ended with {done.code}{name_of_signal(done.code)}")
    return done.text


def name_of_signal(code):
    return f" ({signal.Signals(-code).name})" if -code in [s.value for s in signal.Signals] else ""


class Rows(list):
    """The rows that a cell printed; a notebook shows one line for them."""

    def __repr__(self):
        return f"{len(self)} rows, the first: {self[0]}"


def magic(line, cell, cuda):
    if ROOT is None:
        raise Failed("the headers were not found: set TINYTORCH to the project's folder")
    text, rows = build_and_run(cell, line.split(), cuda), []
    for printed in text.splitlines():
        try:
            rows.append(json.loads(printed) if printed.startswith("{") else None)
        except ValueError:
            rows.append(None)
        if rows[-1] is None:
            rows.pop()
            print(printed)
    return Rows(rows) if rows else None


def load_ipython_extension(shell):
    shell.register_magic_function(lambda line, cell: magic(line, cell, False), "cell", "cpp")
    shell.register_magic_function(lambda line, cell: magic(line, cell, True), "cell", "cuda")
