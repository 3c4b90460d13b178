"""Cells in C++ and CUDA for a Python notebook: `%load_ext cpp_magic`, then

    %%cpp                      statements, or a program with includes and main, compiled against the headers and run
    %%cpp --student            with a student's headers before the library's
    %%cuda                     the same with kernels: by nvcc on a GPU, else by g++ for the emulator
    %%cuda --emulator --count  on the emulator anyway, with its table of memory traffic

A cell of statements has tinytorch.hpp; one that needs layers or data is a program. Errors name the line of the cell. Lines `{"x": 1, ...}` that a program prints are returned as a list of dictionaries, for plots.
"""
import json
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = next((p for p in [Path(os.environ.get("TINYTORCH", "/nowhere")), *Path(__file__).resolve().parents]
             if (p / "include" / "tinytorch").is_dir()), None)
HEADER = """#include <cstdio>
#include <iostream>
#include <tinytorch/tensor/print.hpp>
#include <tinytorch/tinytorch.hpp>
namespace tt = tinytorch;
"""
CUDA_HEADER = """#include <cstdio>
#include <vector>
#include <tinytorch/backend/cuda/kernel.cuh>
#include <tinytorch/backend/cuda/runtime.hpp>
using namespace tinytorch;
using namespace tinytorch::backend;
using namespace tinytorch::backend::cuda;
"""


def program(cell, header):
    """The cell as a program: a cell without `main` is its body."""
    whole = re.search(r"^\s*int\s+main\s*\(", cell, re.M)
    if whole:
        return f'{header}#line 1 "cell"\n{cell}\n'
    return f'{header}int main() {{\n#line 1 "cell"\n{cell}\n}}\n'


class Failed(Exception):
    """Shown without Python's traceback, which says nothing about a cell in C++."""

    def _render_traceback_(self):
        return [str(self)]


def complain(what, done):
    """What failed: from the first error in the cell on."""
    lines = done.text.splitlines()
    at = next((i for i, l in enumerate(lines) if re.search(r"^cell[:(]\d+.*error", l)),
              next((i for i, l in enumerate(lines) if "error" in l), 0))
    raise Failed(f"{what} ended with {done.code}\n" + "\n".join(lines[at:at + 12]))


def build_and_run(cell, flags, cuda):
    unknown = set(flags) - {"--student", "--emulator", "--count"}
    if unknown:
        raise Failed(f"unknown: {' '.join(sorted(unknown))}; there are --student, --emulator, --count")
    sys.path.insert(0, str(ROOT / "modules"))
    import course
    import tools
    shop = course.Workshop(ROOT / "build" / "notebook", tools.call)
    student = sorted(ROOT.glob("modules/[0-9][0-9]_*/student"), reverse=True) if "--student" in flags else []
    gpu = cuda and "--emulator" not in flags and tools.program_version("nvcc") and tools.program_version("nvidia-smi", "-L")
    device = "cuda" if gpu else "sim" if cuda else "cpu"
    env = dict(os.environ, TINYTORCH_SIM_COUNT="1" if "--count" in flags else "0")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / ("cell.cu" if gpu else "cell.cpp")
        source.write_text(program(cell, CUDA_HEADER if cuda else HEADER))
        include = shop.include_flags(student)
        own = {"cpu": ["-O1", "-DTINYTORCH_COMPILED"], "sim": course.SIM_FLAGS, "cuda": []}[device]
        job = (source, "cell.o", [*shop.base_flags(device), "-w", *own, *include])
        if gpu:
            job = (source, "cell.o", shop.nvcc_flags(student), "nvcc")
        jobs = shop.library(student, ["backend", "tensor"], "cpu") if device == "cpu" else shop.runtime(device)
        failed, objects = shop.build([job, *jobs])
        if failed:
            complain("the compiler", failed)
        failed = shop.link(objects, Path(folder) / "cell", device, ["-lfmt"])
        if failed:
            complain("the linker", failed)
        done = tools.call([Path(folder) / "cell"], 600, env=env)
        if done.code != 0:
            raise Failed(f"{done.text}\nthe program ended with {done.code}")
        return done.text


class Rows(list):
    """What a cell printed for a plot; shown in one line."""

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
