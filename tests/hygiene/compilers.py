"""Checks that call a compiler. Each returns (good, why)."""
import contextlib
import functools
import hashlib
import os
import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

import lints

STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
# g++ collects no garbage until it uses 1 GB. A header needs about 400 MB, which the end of the process frees; this saves a tenth
# of the time.
KEEP_GARBAGE = ["--param", "ggc-min-heapsize=1000000"]

# Budgets: processor seconds for g++ to include one header, on a machine that includes YARDSTICK, two headers of the standard
# library, in YARDSTICK_SECONDS. A measured time may exceed its budget by NOISE_FACTOR, because the machine may be shared.
NARROW_SECONDS, NOISE_FACTOR = 1.0, 1.5
UMBRELLA_SECONDS = {"tinytorch.hpp": 3.5, "layers/layers.hpp": 6.0, "kv_cache/kv_cache.hpp": 4.0,
                    "transformer/transformer.hpp": 7.0, "quantization/quantization.hpp": 8.0, "pruning/pruning.hpp": 8.0,
                    "serving/serving.hpp": 8.0, "acceleration/acceleration.hpp": 9.0, "vision/vision.hpp": 6.0,
                    "profiling/profiling.hpp": 5.0, "benchmarking/benchmarking.hpp": 3.0}
# Budgets: processor seconds for g++ -O2 to compile a small program, with the headers alone and with the compiled library.
PROGRAM, PROGRAM_SECONDS = "examples/hello.cpp", {"headers only": ((), 20.0), "compiled library": (("-DTINYTORCH_COMPILED",), 4.0)}
YARDSTICK, YARDSTICK_SECONDS = ("regex", "iostream"), 0.5
NARROW = ("core/shape.hpp", "core/dtype.hpp", "backend/cpu/elementwise.hpp", "backend/cpu/reduce.hpp",
          "tensor/strides.hpp", "tensor/tensor.hpp", "benchmarking/statistics.hpp")


def run(command, text=None, cwd=None):
    done = subprocess.run([str(c) for c in command], input=text.encode() if text is not None else None, cwd=cwd,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    return done.returncode == 0, done.stdout.decode("utf-8", "replace")


def host_compiler(name):
    flags = KEEP_GARBAGE if name == "g++" else []
    return [name, *STRICT, *flags, "-fopenmp", "-fsyntax-only", "-x", "c++", "-"]


def cuda_compiler():
    """The command of nvcc, or None if it is not installed. It compiles declarations only: a .cu file uses the compiled library,
    whose bodies the host compiler compiles. -ptx runs nvcc's own front end and no host compiler, which takes a third of the
    time. Nothing is executed, so the code is not optimized."""
    return ["nvcc", "-std=c++20", "-x", "cu", "--expt-relaxed-constexpr", "-arch=sm_75", "-Xcicc", "-O0", "-DTINYTORCH_COMPILED",
            "-Werror", "all-warnings", "-ptx", "-o", os.devnull] if shutil.which("nvcc") else None


def header_alone(tree, header):
    """Compiles a file that includes only this header, so that a missing #include is an error. Only the bodies of the header's own
    part of the library are compiled: the bodies of other parts take most of the time, and their includes could hide a missing
    one; headers_together compiles all bodies. Only g++ compiles each header: a missing include is missing for clang++ as well,
    and headers_together finds clang++'s own warnings in a hundredth of the time. nvcc compiles headers of kernels."""
    if str(header).endswith(".cuh"):
        return with_nvcc(tree, [header], "-DTINYTORCH_WITH_CUDA=1")
    parts = set(re.findall(r"^#if TT_BODIES\((\w+)\)", (tree.include / header).read_text(), re.M))
    own = ["-DTINYTORCH_COMPILED", *(f"-DTINYTORCH_IMPLEMENT_{part}=1" for part in sorted(parts))]
    command = [*host_compiler("g++"), *own, "-I", "include"]
    text = f"#include <{header}>\n" + (compiled_elsewhere() if "LINALG" in parts else "")
    return remembered(tree, header, command, lambda: run(command, text, cwd=tree.root))


# Folder of checks that passed: each is an empty file whose name is a hash of everything that the check depends on. A compiler
# cache does this for objects, but not for -fsyntax-only.
PASSED = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tinytorch" / "passed"


def remembered(tree, header, command, check):
    """The result of `check`, or (True, "") if it passed before with the same command, compiler and text of every file it reads."""
    files = lints.reached([tree.include / header], (tree.include,))
    text = [compiler_version(command[0]), *map(str, command)]
    text += [f"{path.relative_to(tree.include)} {digest(path)}" for path in sorted(files)]
    kept = PASSED / hashlib.sha256("\n".join(text).encode()).hexdigest()
    if kept.exists():
        return True, ""
    good, why = check()
    if good:
        with contextlib.suppress(OSError):  # without a writable cache the check runs again next time
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.touch()
    return good, why


@lints.unchanged
def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@functools.cache
def compiler_version(name):
    return run([name, "--version"])[1]


def with_nvcc(tree, headers, *more):
    """nvcc compiles one file that includes these headers."""
    with tempfile.TemporaryDirectory() as folder:  # nvcc reads no standard input
        source = Path(folder) / "headers.cu"
        source.write_text("".join(f"#include <{header}>\n" for header in headers))
        return run([*cuda_compiler(), *more, "-I", tree.include, source])


def kernels_for_emulator(tree):
    return run(["clang++", *STRICT, "-Wno-unknown-pragmas", "-DTINYTORCH_WITH_CUDA=1", "-DTINYTORCH_CUDA_SIM=1",
                "-fsyntax-only", "-I", tree.include, "-x", "c++", "-"],
               "#include <tinytorch/cuda_impl.cuh>\n#include <tinytorch/backend/cuda/sim/bodies.hpp>\n")


LINALG = "tinytorch/tensor/ops/linalg.hpp"
# Functions of linalg-inl.hpp, with the types of their parameters. T is float or double.
FACTORIZATIONS = {"const char* solve": "T*, const T*, const T*, int64_t, int64_t", "T det": "const T*, int64_t",
                  "const char* cholesky": "T*, const T*, int64_t", "const char* eigh": "T*, T*, const T*, int64_t",
                  "void qr": "T*, T*, const T*, int64_t, int64_t, int64_t",
                  "const char* svd": "T*, T*, T*, const T*, int64_t, int64_t, int64_t, int64_t"}


def compiled_elsewhere():
    """Declarations by which a file does not instantiate Eigen's factorizations, which takes three quarters of the time of all
    headers. Each build of the compiled library instantiates them, in linalg_bodies.cpp."""
    lines = []
    for function, parameters in FACTORIZATIONS.items():
        result, name = function.rsplit(" ", 1)
        line = f"extern template {result} tinytorch::linalg::host::{name}<T>({parameters});\n"
        lines += [re.sub(r"\bT\b", type_name, line) for type_name in ("float", "double")]
    return "".join(lines)


def headers_together(tree, headers, compiler):
    """Compiles one file that includes all these headers, header-only: two of them must not define the same name. Only clang++, which
    is quick, instantiates Eigen."""
    text = "".join(f"#include <{header}>\n" for header in headers)
    more = compiled_elsewhere() if compiler == "g++" and LINALG in map(str, headers) else ""
    return run([*host_compiler(compiler), "-I", tree.include], text + more)


def bench_compiles(tree, path):
    """Compiles a benchmark, without linking. Benchmarks are built only on request, so this finds errors after a change of the
    library."""
    folders = [flag for folder in ("bench", "include", "tests") for flag in ("-I", tree.root / folder)]
    text = ['-DTINYTORCH_BUILD_FLAGS=""']
    return run([*host_compiler("g++")[:-3], "-DTINYTORCH_COMPILED", *text, *folders, "-isystem",
                "/usr/include/eigen3", path])


def two_files_link(tree, header, expression):
    """Two files that include and use the header are compiled separately, header-only, and linked into one program that runs."""
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for number in (1, 2):
            source = Path(folder) / f"{number}.cpp"
            main = "int other();\nint main() { return use() - other(); }\n" if number == 1 else "int other() { return use(); }\n"
            source.write_text(f"#include <{header}>\nstatic int use() {{ return static_cast<int>({expression}); }}\n{main}")
            objects.append(source.with_suffix(".o"))
            good, why = run(["g++", *STRICT, *KEEP_GARBAGE, "-I", tree.include, "-c", source, "-o", objects[-1]])
            if not good:
                return good, why
        good, why = run(["g++", *objects, "-o", Path(folder) / "both"])
        return run([Path(folder) / "both"]) if good else (good, why)


def cuda_answers_do_not_mix(tree):
    """An object compiled with CUDA and one without use different type names (inline namespace), so they do not link."""
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for number, body in ((0, "int count(const tinytorch::Shape& s) { return static_cast<int>(s.size()); }"),
                             (1, "int count(const tinytorch::Shape&);\nint main() { return count({}); }")):
            source = Path(folder) / f"{number}.cpp"
            source.write_text(f"#include <tinytorch/core/shape.hpp>\n{body}\n")
            objects.append(source.with_suffix(".o"))
            good, why = run(["g++", *STRICT, f"-DTINYTORCH_WITH_CUDA={number}", "-I", tree.include, "-c", source, "-o",
                             objects[-1]])
            if not good:
                return good, why
        linked, text = run(["g++", *objects, "-o", Path(folder) / "both"])
        return not linked and "with_cuda" in text, "the two objects linked\n" if linked else text


def must_not_compile(tree, path):
    """The file does not compile, and the compiler's message matches the regular expression after `// expect:`. The library's
    declarations refuse it, so the bodies of its functions are left out, which takes a quarter of the time."""
    expected = re.search(r"^// expect: (.+)$", path.read_text(), re.M)
    if not expected:
        return False, "the file has no line `// expect: <regular expression>`"
    good, text = run(["g++", *STRICT, *KEEP_GARBAGE, "-DTINYTORCH_COMPILED", "-fsyntax-only", "-I", tree.include, path])
    if good:
        return False, "the file compiles"
    return bool(re.search(expected.group(1), text)), f"the compiler's message does not match: {expected.group(1)}\n{text[:2000]}"


def processor_seconds(tree, headers, flags=()):
    """Processor seconds of g++ for a file that includes these headers."""
    before = os.times()
    good, why = run(["g++", "-std=c++20", *flags, "-c", "-x", "c++", "-", "-o", os.devnull, "-I", tree.include],
                    "".join(f"#include <{header}>\n" for header in headers))
    after = os.times()
    if not good:
        raise RuntimeError(why[:2000])
    return after.children_user + after.children_system - before.children_user - before.children_system


def include_seconds(tree, header, budget=0.0, repeats=3, flags=()):
    """Processor seconds of g++ for a file with this one include, divided by the slowness of this machine, which the yardstick
    measures just before. `flags` are options of the compiler. Returns the first of `repeats` measurements that is within the budget, else their median."""
    seconds = []
    while len(seconds) < repeats and not (seconds and seconds[-1] <= budget):
        slowness = processor_seconds(tree, YARDSTICK) / YARDSTICK_SECONDS
        seconds.append(processor_seconds(tree, [header], flags) / slowness)
    return seconds[-1] if seconds[-1] <= budget else statistics.median(seconds)


def kernels_with_solutions(tree, frames):
    """Compiles the bodies of all CPU kernels with these frames of the course and their solutions in place of the library's
    headers."""
    with tempfile.TemporaryDirectory() as folder:
        for frame in frames:
            header = frame.relative_to(frame.parents[3])
            tasks = Path("tasks", *header.parts[1:])
            for copy, source in ((header, frame), (tasks, frame.parents[4] / "solution" / tasks)):
                (Path(folder) / copy).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / copy).write_text(source.read_text())
        kernels = sorted(path.relative_to(tree.include) for path in tree.headers()
                         if tree.include / "tinytorch/backend/cpu" in path.parents)
        for part in ("BACKEND", "PRODUCTS"):
            text = f"#define TINYTORCH_IMPLEMENT_{part} 1\n" + "".join(f"#include <{header}>\n" for header in kernels)
            outcome = run(["g++", "-std=c++20", "-fsyntax-only", "-w", "-DTINYTORCH_COMPILED", "-I", folder, "-I", tree.include,
                           "-x", "c++", "-"], text)
            if not outcome[0]:
                break
        return outcome


def student_header_is_seen(tree, header, entry):
    """With a student's copy of `header` first on the include path, a file that includes `entry` reads the student's copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / header
        copy.parent.mkdir(parents=True)
        copy.write_text("#error the student's header was read\n")
        good, text = run(["g++", "-std=c++20", "-E", "-I", folder, "-I", tree.include, "-x", "c++", "-", "-o", os.devnull],
                         f"#include <{entry}>\n")
        return not good and "the student's header was read" in text, f"<{entry}> does not read the student's header\n"
