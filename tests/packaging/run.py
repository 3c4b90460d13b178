"""Builds a small program in each way of using the library (CMake, pkg-config, bare compilers), and checks its results. Also
tests the options of CMakeLists.txt. Prints `ok - name`, `not ok - name` or `skipped - name: reason` for each check.

  python3 tests/packaging/run.py [--only WORD] [--build FOLDER]
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONSUMER = ROOT / "tests" / "packaging" / "consumer"
BUILD = ROOT / "build"  # the build that is installed
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class Failure(Exception):
    pass


class Skipped(Exception):
    """The check needs something that this machine does not have. The message names it."""


def sh(*command, cwd=None, env=None, expect=0):
    done = subprocess.run([str(c) for c in command], cwd=cwd and str(cwd), env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
    text = done.stdout.decode("utf-8", "replace")
    if (done.returncode == 0) != (expect == 0):
        raise Failure(f"{' '.join(str(c) for c in command)}\nexited with code {done.returncode}\n{text[-3000:]}")
    return text


def require_right_results(program, env=None):
    text = sh(program, env=env)
    if not re.search(r"tinytorch \d+\.\d+\.\d+: right", text):
        raise Failure(f"{program} did not print `right`: {text}")


def checkout(folder):
    """Copies the sources without builds and student files, like a user's clone."""
    if (folder / "tinytorch-source").exists():
        return folder / "tinytorch-source"
    skip = shutil.ignore_patterns("build*", ".git", "__pycache__", "student", ".cache")
    return Path(shutil.copytree(ROOT, folder / "tinytorch-source", ignore=skip))


def consumer(folder, way, library, *flags):
    build = folder / f"{way}-{library}"
    # -O0, since this tests whether the program builds and links, and optimizing header-only code takes half a minute.
    sh("cmake", "-S", CONSUMER, "-B", build, f"-DWAY={way}", f"-DLIBRARY={library}", "-DCMAKE_CXX_FLAGS=-O0", *flags)
    sh("cmake", "--build", build, "-j", CORES, "--target", "consumer")
    require_right_results(build / "consumer")


def bare(folder):
    sh("g++", "-std=c++20", "-I", ROOT / "include", CONSUMER / "main.cpp", "-o", folder / "bare")
    require_right_results(folder / "bare")


def find_package(folder):
    """Tests the installation. It reuses the object files in BUILD if they exist."""
    sh("cmake", "-S", ROOT, "-B", BUILD)
    sh("cmake", "--build", BUILD, "-j", CORES, "--target", "tinytorch_compiled")
    prefix = folder / "prefix"
    sh("cmake", "--install", BUILD, "--prefix", prefix)
    for library in ("tinytorch", "compiled"):
        consumer(folder, "find_package", library, f"-DCMAKE_PREFIX_PATH={prefix}")
    stray = [p for p in prefix.rglob("*.cmake") if str(ROOT) in p.read_text()]
    if stray:
        raise Failure(f"the installed file {stray[0].name} contains the path of the source folder")


def pkg_config(folder):
    env = dict(os.environ, PKG_CONFIG_PATH=str(folder / "prefix" / "share" / "pkgconfig"))
    flags = sh("pkg-config", "--cflags", "--libs", "tinytorch", env=env).split()
    sh("g++", CONSUMER / "main.cpp", *flags, "-o", folder / "by-pkg-config")
    require_right_results(folder / "by-pkg-config")


def add_subdirectory(folder):
    consumer(folder, "add_subdirectory", "tinytorch", f"-DSOURCE={checkout(folder)}")
    # A user's build must not build targets that it does not use, and must not use -march=native.
    sh("cmake", "--build", folder / "add_subdirectory-tinytorch", "-j", CORES)
    if list((folder / "add_subdirectory-tinytorch").rglob("libtinytorch.a")):
        raise Failure("the compiled library was built, although no target links it")
    if "-march=native" in sh("cmake", "--build", folder / "add_subdirectory-tinytorch", "--clean-first", "--verbose"):
        raise Failure("the user's build uses -march=native")


def fetch_content(folder):
    # Only header-only: the compiled library would be built by the same rules as in add_subdirectory.
    consumer(folder, "FetchContent", "tinytorch", f"-DSOURCE={checkout(folder)}")


def configure(source, folder, *flags, expect=0):
    return sh("cmake", "-S", source, "-B", folder / "configured", *flags, expect=expect)


def require_parts(text, *parts):
    """Fails if a part is missing in the text. White space is normalized."""
    for part in parts:
        if part not in " ".join(text.split()):
            raise Failure(f"{part!r} is missing in this output:\n{text[-3000:]}")


def cuda_switch(folder):
    source = checkout(folder)
    require_parts(configure(source, folder, "-DTINYTORCH_WITH_CUDA=AUTO"), "tinytorch: CUDA ")
    if shutil.which("nvcc"):
        require_parts(configure(source, folder, "-DTINYTORCH_WITH_CUDA=ON"), "tinytorch: CUDA ", "for sm_")
    else:
        require_parts(configure(source, folder, "-DTINYTORCH_WITH_CUDA=ON", expect=1), "no CUDA compiler was found", "OFF")
    if "CUDA" in configure(source, folder, "-DTINYTORCH_WITH_CUDA=OFF"):
        raise Failure("TINYTORCH_WITH_CUDA=OFF must print nothing about CUDA")


def gpu_found():
    return bool(shutil.which("nvidia-smi")) and subprocess.run(["nvidia-smi", "-L"], stdin=subprocess.DEVNULL,
                                                               stdout=subprocess.DEVNULL).returncode == 0


CUDA_PAGE = "include/tinytorch/backend/cuda/README.md"


def bare_nvcc(folder):
    """One file compiles, links and runs with the command in CUDA_PAGE, with options for a faster build."""
    if not shutil.which("nvcc"):
        raise Skipped("nvcc was not found")
    lines = re.findall(r"^nvcc .*program\.cu.*$", (ROOT / CUDA_PAGE).read_text(encoding="utf-8"), re.M)
    if len(lines) != 1:
        raise Failure(f"{CUDA_PAGE} must have one line `nvcc ... program.cu ...`, but has {len(lines)}")
    replaced = {"-O3": "-Xcicc=-O0 -Xptxas=-O0", "-I include": f"-I {ROOT / 'include'}"}
    if not gpu_found():  # -arch=native needs a GPU
        replaced["-arch=native"] = "-arch=sm_75"
    command = lines[0]
    for theirs, ours in replaced.items():
        if theirs not in command:
            raise Failure(f"the command in {CUDA_PAGE} lacks {theirs}; adapt this check:\n{command}")
        command = command.replace(theirs, ours)
    shutil.copy(CONSUMER / "cuda.cu", folder / "program.cu")
    said = sh(*command.split(), cwd=folder)
    if "warning" in said:
        raise Failure(f"nvcc printed warnings:\n{said[-3000:]}")
    if gpu_found():
        require_right_results(folder / "program")
        return
    said = sh(folder / "program", expect=1)
    require_parts(said, "TT-CUDA-04: looking for a CUDA device: ", "hint: check nvidia-smi", "at program.cu:")
    if "right" in said:
        raise Failure(f"the program printed `right` without a GPU: {said}")


def student_guards(folder):
    source = checkout(folder)
    student = source / "modules" / "01_tensor" / "student"
    cases = [("tinytorch/tensor/strydes.hpp", "replaces nothing"), ("tinytorch/core/shape.hpp", "never replaced"),
             ("tensor/strides.hpp", "replaces nothing"), ("tasks/tensor/tensor.hpp", "replaces nothing"),
             ("tinytorch/backend/cpu/elementwise.hpp", "modules/tt migrate 01"), ("tinytorch/tensor/tensor.hpp", "modules/tt migrate 01")]
    require_parts(configure(source, folder, "-DTINYTORCH_STUDENT=01_tensor", expect=1), "does not exist")
    old, new = next(iter(json.loads((source / "modules" / "moved.json").read_text()).items()))
    moved = [f"old path: {old}", f"new path: {new}"]
    cases += [(old, "replaces a header that has moved", *moved),
              ("tasks/tensor/strides.hpp", "includes a header that has moved", *moved)]
    for name, *complaints in cases:
        path = student / name
        path.parent.mkdir(parents=True)
        path.write_text(f"#pragma once\n#include <tinytorch/core/shape.hpp>\n#include <{old}>  // moved\n")
        require_parts(configure(source, folder, "-DTINYTORCH_STUDENT=01_tensor", expect=1), name, *complaints)
        shutil.rmtree(student)


def student_header(folder):
    """A student's functors.hpp with a deliberate error changes the program's results."""
    source = checkout(folder)
    ours = source / "include" / "tinytorch" / "backend" / "functors.hpp"
    text = ours.read_text()
    wrong = text.replace("if constexpr (fn == square) return x * x;", "if constexpr (fn == square) return x + x;")
    if wrong == text:
        raise Failure("functors.hpp does not contain the expected line for square; adapt this check")
    theirs = source / "modules" / "01_tensor" / "student" / "tinytorch" / "backend" / "functors.hpp"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(wrong)
    require_parts(configure(source, folder, "-DTINYTORCH_STUDENT=all", "-DTINYTORCH_WITH_CUDA=OFF"),
             "student header modules/01_tensor/student/tinytorch/backend/functors.hpp replaces")
    build = folder / "student"
    sh("cmake", "-S", CONSUMER, "-B", build, "-DWAY=add_subdirectory", "-DLIBRARY=tinytorch", f"-DSOURCE={source}",
       "-DTINYTORCH_STUDENT=all", "-DCMAKE_CXX_FLAGS=-O0")
    sh("cmake", "--build", build, "--target", "consumer")
    require_parts(sh(build / "consumer", expect=1), "WRONG")


# The checks of one lane share a folder and run one after the other. The lanes run in parallel, since most steps use one core.
LANES = [
    [("add_subdirectory", add_subdirectory), ("FetchContent from a local path", fetch_content)],
    [("cmake --install and find_package", find_package), ("pkg-config", pkg_config), ("bare g++", bare)],
    [("bare nvcc", bare_nvcc)],
    [("TINYTORCH_WITH_CUDA", cuda_switch), ("TINYTORCH_STUDENT refuses headers that replace nothing", student_guards),
     ("TINYTORCH_STUDENT replaces a header", student_header)],
]


def run_lane(lane, folder, only):
    """Runs the checks of a lane whose title contains `only`. Returns (title, problem) for each; None: no problem."""
    outcomes = []
    folder.mkdir()
    for title, check in lane:
        if only and only not in title:
            continue
        try:
            check(folder)
            outcomes.append((title, None))
        except Skipped as why:
            outcomes.append((title, why))
        except (Failure, OSError, subprocess.TimeoutExpired) as problem:
            outcomes.append((title, str(problem) or type(problem).__name__))
    return outcomes


def main():
    global BUILD
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="run only the checks whose name contains this text")
    options.add_argument("--build", default=BUILD, type=Path, help="the build folder whose library is installed")
    options = options.parse_args()
    BUILD, only = options.build, options.only
    failed = 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(max_workers=CORES) as pool:
        lanes = [pool.submit(run_lane, lane, Path(name) / str(i), only) for i, lane in enumerate(LANES)]
        for title, problem in [outcome for lane in lanes for outcome in lane.result()]:
            if isinstance(problem, Skipped):
                print(f"skipped - {title}: {problem}", flush=True)
                continue
            failed += problem is not None
            print(f"ok - {title}" if problem is None else
                  f"not ok - {title}\n" + "\n".join("  " + l for l in problem.splitlines()[:60]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
