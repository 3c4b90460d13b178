"""Builds one program in every way in which the library can be used; the program must compute the right numbers. Tests the
options of CMakeLists.txt, too. Prints `ok - name`, `not ok - name` and `skipped - name: why`.

  python3 tests/packaging/run.py [--only WORD]
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
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class Failure(Exception):
    pass


class Skipped(Exception):
    """The check needs something that this machine lacks; the message says what."""


def sh(*command, cwd=None, env=None, expect=0):
    done = subprocess.run([str(c) for c in command], cwd=cwd and str(cwd), env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
    text = done.stdout.decode("utf-8", "replace")
    if (done.returncode == 0) != (expect == 0):
        raise Failure(f"{' '.join(str(c) for c in command)}\nended with {done.returncode}\n{text[-3000:]}")
    return text


def says_right(program, env=None):
    text = sh(program, env=env)
    if not re.search(r"tinytorch \d+\.\d+\.\d+: right", text):
        raise Failure(f"{program} said: {text}")


def checkout(folder):
    """A copy of the sources, as a user's clone or archive holds them, without our builds."""
    if (folder / "tinytorch-source").exists():
        return folder / "tinytorch-source"
    skip = shutil.ignore_patterns("build*", ".git", "__pycache__", "student", ".cache")
    return Path(shutil.copytree(ROOT, folder / "tinytorch-source", ignore=skip))


def consumer(folder, way, library, *flags):
    build = folder / f"{way}-{library}"
    # -O0: what is proved is that the pieces fit, and header-only code optimizes for half a minute.
    sh("cmake", "-S", CONSUMER, "-B", build, f"-DWAY={way}", f"-DLIBRARY={library}", "-DCMAKE_CXX_FLAGS=-O0", *flags)
    sh("cmake", "--build", build, "-j", CORES, "--target", "consumer")
    says_right(build / "consumer")


def bare(folder):
    sh("g++", "-std=c++20", "-I", ROOT / "include", CONSUMER / "main.cpp", "-o", folder / "bare")
    says_right(folder / "bare")


def find_package(folder):
    """Reuses the objects of build/ when they are there: what is tested is the installation."""
    build = ROOT / "build"
    sh("cmake", "-S", ROOT, "-B", build)
    sh("cmake", "--build", build, "-j", CORES, "--target", "tinytorch_compiled")
    prefix = folder / "prefix"
    sh("cmake", "--install", build, "--prefix", prefix)
    for library in ("tinytorch", "compiled"):
        consumer(folder, "find_package", library, f"-DCMAKE_PREFIX_PATH={prefix}")
    stray = [p for p in prefix.rglob("*.cmake") if str(ROOT) in p.read_text()]
    if stray:
        raise Failure(f"{stray[0].name} names the source folder")


def pkg_config(folder):
    env = dict(os.environ, PKG_CONFIG_PATH=str(folder / "prefix" / "share" / "pkgconfig"))
    flags = sh("pkg-config", "--cflags", "--libs", "tinytorch", env=env).split()
    sh("g++", CONSUMER / "main.cpp", *flags, "-o", folder / "by-pkg-config")
    says_right(folder / "by-pkg-config")


def add_subdirectory(folder):
    consumer(folder, "add_subdirectory", "tinytorch", f"-DSOURCE={checkout(folder)}")
    # A user's build makes nothing of ours unasked, and takes no flag of this machine.
    sh("cmake", "--build", folder / "add_subdirectory-tinytorch", "-j", CORES)
    if list((folder / "add_subdirectory-tinytorch").rglob("libtinytorch.a")):
        raise Failure("the compiled library was built though nobody links it")
    if "-march=native" in sh("cmake", "--build", folder / "add_subdirectory-tinytorch", "--clean-first", "--verbose"):
        raise Failure("-march=native in a user's build")


def fetch_content(folder):
    # Header-only: the compiled library of a user's project is built by the same rules as in add_subdirectory.
    consumer(folder, "FetchContent", "tinytorch", f"-DSOURCE={checkout(folder)}")


def configure(source, folder, *flags, expect=0):
    return sh("cmake", "-S", source, "-B", folder / "configured", *flags, expect=expect)


def must_say(text, *parts):
    for part in parts:
        if part not in " ".join(text.split()):
            raise Failure(f"{part!r} is not in\n{text[-3000:]}")


def cuda_switch(folder):
    source = checkout(folder)
    must_say(configure(source, folder, "-DTINYTORCH_WITH_CUDA=AUTO"), "tinytorch: CUDA ")
    if shutil.which("nvcc"):
        must_say(configure(source, folder, "-DTINYTORCH_WITH_CUDA=ON"), "tinytorch: CUDA ", "for sm_")
    else:
        must_say(configure(source, folder, "-DTINYTORCH_WITH_CUDA=ON", expect=1), "no CUDA compiler was found", "OFF")
    if "CUDA" in configure(source, folder, "-DTINYTORCH_WITH_CUDA=OFF"):
        raise Failure("OFF is to be quiet")


def gpu_found():
    return bool(shutil.which("nvidia-smi")) and subprocess.run(["nvidia-smi", "-L"], stdin=subprocess.DEVNULL,
                                                               stdout=subprocess.DEVNULL).returncode == 0


def bare_nvcc(folder):
    """The command of include/tinytorch/README.md, with options that compile faster: one file compiles, links and runs."""
    if not shutil.which("nvcc"):
        raise Skipped("nvcc is not here")
    lines = re.findall(r"^nvcc .*program\.cu.*$", (ROOT / "include/tinytorch/README.md").read_text(encoding="utf-8"), re.M)
    if len(lines) != 1:
        raise Failure(f"include/tinytorch/README.md has {len(lines)} lines `nvcc ... program.cu ...`, one is expected")
    replaced = {"-O3": "-Xcicc=-O0 -Xptxas=-O0", "-I include": f"-I {ROOT / 'include'}"}
    if not gpu_found():  # then -arch=native has nothing to go by
        replaced["-arch=native"] = "-arch=sm_75"
    command = lines[0]
    for theirs, ours in replaced.items():
        if theirs not in command:
            raise Failure(f"{theirs} is not in the command of include/tinytorch/README.md; adapt this check\n{command}")
        command = command.replace(theirs, ours)
    shutil.copy(CONSUMER / "cuda.cu", folder / "program.cu")
    said = sh(*command.split(), cwd=folder)
    if "warning" in said:
        raise Failure(f"nvcc warned:\n{said[-3000:]}")
    if gpu_found():
        says_right(folder / "program")
        return
    said = sh(folder / "program", expect=1)
    must_say(said, "TT-CUDA-04: looking for a CUDA device: ", "hint: check nvidia-smi", "at program.cu:")
    if "right" in said:
        raise Failure(f"without a GPU it said {said}")


def student_guards(folder):
    source = checkout(folder)
    student = source / "modules" / "01_tensor" / "student"
    cases = [("tinytorch/tensor/strydes.hpp", "replaces nothing"), ("tinytorch/core/shape.hpp", "never replaced"),
             ("tensor/strides.hpp", "replaces nothing"), ("tasks/tensor/tensor.hpp", "replaces nothing"),
             ("tinytorch/backend/cpu/elementwise.hpp", "modules/tt migrate 01"), ("tinytorch/tensor/tensor.hpp", "modules/tt migrate 01")]
    must_say(configure(source, folder, "-DTINYTORCH_STUDENT=01_tensor", expect=1), "does not exist")
    old, new = next(iter(json.loads((source / "modules" / "moved.json").read_text()).items()))
    moved = [f"old path: {old}", f"new path: {new}"]
    cases += [(old, "replaces a header that has moved", *moved),
              ("tasks/tensor/strides.hpp", "includes a header that has moved", *moved)]
    for name, *complaints in cases:
        path = student / name
        path.parent.mkdir(parents=True)
        path.write_text(f"#pragma once\n#include <tinytorch/core/shape.hpp>\n#include <{old}>  // moved\n")
        must_say(configure(source, folder, "-DTINYTORCH_STUDENT=01_tensor", expect=1), name, *complaints)
        shutil.rmtree(student)


def student_header(folder):
    """A student's functors.hpp, wrong on purpose, changes what the program computes."""
    source = checkout(folder)
    ours = source / "include" / "tinytorch" / "backend" / "functors.hpp"
    text = ours.read_text()
    wrong = text.replace("if constexpr (fn == square) return x * x;", "if constexpr (fn == square) return x + x;")
    if wrong == text:
        raise Failure("functors.hpp has no line for square; adapt this check")
    theirs = source / "modules" / "01_tensor" / "student" / "tinytorch" / "backend" / "functors.hpp"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(wrong)
    must_say(configure(source, folder, "-DTINYTORCH_STUDENT=all", "-DTINYTORCH_WITH_CUDA=OFF"),
             "student header modules/01_tensor/student/tinytorch/backend/functors.hpp replaces")
    build = folder / "student"
    sh("cmake", "-S", CONSUMER, "-B", build, "-DWAY=add_subdirectory", "-DLIBRARY=tinytorch", f"-DSOURCE={source}",
       "-DTINYTORCH_STUDENT=all", "-DCMAKE_CXX_FLAGS=-O0")
    sh("cmake", "--build", build, "--target", "consumer")
    must_say(sh(build / "consumer", expect=1), "WRONG")


# Checks of one lane share a folder and follow each other; the lanes run side by side, for most steps use one core.
LANES = [
    [("add_subdirectory", add_subdirectory), ("FetchContent from a local path", fetch_content)],
    [("cmake --install and find_package", find_package), ("pkg-config", pkg_config), ("bare g++", bare)],
    [("bare nvcc", bare_nvcc)],
    [("TINYTORCH_WITH_CUDA", cuda_switch), ("TINYTORCH_STUDENT refuses strays", student_guards),
     ("TINYTORCH_STUDENT replaces a header", student_header)],
]


def run_lane(lane, folder, only):
    """(title, what was wrong or lacking or None) of every check of the lane that is wanted."""
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
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="")
    only = options.parse_args().only
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
