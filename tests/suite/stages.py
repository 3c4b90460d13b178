"""The stages of `modules/tt test`: each proves one part of the project and counts what it found (rings.py orders them)."""
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite.counting import Cut, count_doctest, count_lines, count_skipped, count_unittest, doctest_errors
from tools import CORES, GCC, ROOT, Build, Finished, call, call_all, run_race, tail

# --- Builds and environments --------------------------------------------------------------------------------------

# The tests with the emulator as the device `cuda`. The library is at -O1: optimized, its kernels compile for three minutes,
# and tests run for seconds; the stage `optimized` runs them on the kernels that users have.
SIM = Build("sim", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DTINYTORCH_WITH_CUDA=SIM",
            "-DTINYTORCH_FUZZ=OFF", "-DTINYTORCH_TESTS=")
OPTIMIZED = Build("optimized", "-DCMAKE_BUILD_TYPE=Release", "-DTINYTORCH_WITH_CUDA=OFF", "-DTINYTORCH_FUZZ=OFF",
                  "-DTINYTORCH_TESTS=")
# The second compiler and the sanitizers share a build: every test runs under both, and is compiled twice, not thrice.
CLANG = Build("clang", "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_BUILD_TYPE=Release", "-DTINYTORCH_FUZZ=ON",
              "-DTINYTORCH_SANITIZE=address,undefined", "-DTINYTORCH_TESTS=")

# Every kernel for the oldest and the newest architecture; no GPU is needed. The oldest unoptimized, which takes a third of
# the time. -Werror, so that a warning is an error in the next run as well.
CUDA = {architecture: Build(f"cuda_{architecture}", "-DTINYTORCH_WITH_CUDA=ON", "-DCMAKE_BUILD_TYPE=Release",
                            f"-DTINYTORCH_CUDA_ARCHITECTURES={architecture}", "-DTINYTORCH_FUZZ=OFF",
                            f"-DCMAKE_CUDA_FLAGS=-Werror=all-warnings {more}".strip())
        for architecture, more in (("75", "-Xcicc=-O0 -Xptxas=-O0"), ("90a", ""))}


def data_folder():
    """Real data, which is optional and never downloaded; without it the cases that need it are skipped."""
    folder = Path(os.environ.get("TINYTORCH_DATA", ROOT.parent / "shared" / "data"))
    return folder if folder.is_dir() else None


def commit():
    """What every draw of the suite is made from, so that a commit always proves the same and the next one something else."""
    return call(["git", "rev-parse", "HEAD"], 60).text.strip()


def test_environment(**more):
    env = dict(os.environ, OMP_WAIT_POLICY="passive", ASAN_OPTIONS="detect_leaks=1:abort_on_error=0",
               LSAN_OPTIONS=f"suppressions={ROOT}/tests/support/leaks.supp:print_suppressions=0",
               UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
    env.update(more)
    return env


CCACHE = "/usr/lib/ccache"  # compilers by their own names, as Debian's package has them


def cached_environment(base=ROOT, **more):
    """A compiler answers from what it was asked before, in this checkout or in another, and says paths in full. Paths below
    `base` are taken relative to the working folder: "/" serves copies of the project in folders of other names. The cache is
    the user's own: it outlives a checkout."""
    env = test_environment(CCACHE_BASEDIR=str(base), CCACHE_NOHASHDIR="1", CCACHE_ABSSTDERR="1",
                           CCACHE_PATH=os.environ.get("CCACHE_PATH", "/usr/bin:/usr/local/bin"),
                           CCACHE_DEPEND="1",  # what a file includes is the compiler's list: no second preprocessor run
                           CCACHE_SLOPPINESS="pch_defines,time_macros,include_file_mtime,include_file_ctime", **more)
    return dict(env, PATH=f"{CCACHE}:{env['PATH']}") if Path(CCACHE, "g++").exists() else env


# --- C++ tests ----------------------------------------------------------------------------------------------------

# Folders below tests/ whose .cpp files are no tests of a program of tests.
OTHER_FOLDERS = ("support", "hygiene", "packaging", "fuzz", "golden", "tt", "exploits")
# The suite's builds have the emulator or no device: what needs a GPU itself is skipped in all of them.
NEED_A_GPU = ("test_tinymlperf_device_exploits",)
# Real matches between real submissions take minutes: they are a stage of their own, and the first ring plays their controls.
MATCHES = r"test_tinymlperf_"


def test_files():
    files = {p.relative_to(ROOT / "tests").as_posix() for p in (ROOT / "tests").rglob("*.cpp")}
    return {f for f in files if f.split("/")[0] not in OTHER_FOLDERS}


def built_tests(tally, build, env, *targets):
    """Builds, holds the compiler to silence, and gives the tests (tools.Test) whose program is there."""
    built = build.make(*(targets or ["all_tests"]), env=env)
    tally.check(built, f"build in {build.folder.relative_to(ROOT)}", build.first_errors() if not built else "")
    if not (build.folder / "CMakeCache.txt").exists():
        return []
    warnings = build.warnings()
    tally.check(not warnings, "the compiler has nothing to say", tail("\n".join(warnings[:10])))
    tests = build.tests()
    of_tests = {source for t in tests for source in t.labels}
    tally.check(of_tests and of_tests == test_files(), "every test file is part of a test",
                "    " + ", ".join(sorted(of_tests ^ test_files())))
    for program in sorted({t.command[0] for t in tests if not Path(t.command[0]).exists()}):
        if not targets or Path(program).name in targets:
            tally.check(False, Path(program).name, "    it was not built")
    return [t for t in tests if Path(t.command[0]).exists()]


def run_all(tally, tests, env, seconds, device=False, device_seconds=None):
    """Runs tests: side by side those that count, one at a time those that measure (RUN_SERIAL in tests/CMakeLists.txt), which
    have a second try. What runs on the emulator uses one core, and begins no case after `device_seconds`."""
    on_device = [t for t in tests if device and "cuda" in t.name]
    measuring = [t for t in tests if t.serial]
    run_tests(tally, [t for t in tests if t not in on_device + measuring], CORES, env, seconds, device)
    if on_device:
        budget = {"TINYTORCH_TEST_SECONDS": str(device_seconds)} if device_seconds else {}
        run_tests(tally, on_device, CORES, dict(env, OMP_NUM_THREADS="1", **budget), seconds, device)
    failed = run_tests(tally, measuring, 1, env, seconds, device, count_failures=False) if measuring else []
    if failed:
        tally.console.say("  once more: " + ", ".join(t.name for t in failed))
        run_tests(tally, failed, 1, env, seconds, device)


def run_tests(tally, tests, jobs, env, seconds, device, count_failures=True):
    """Runs and counts; gives the tests that failed, which do not count without `count_failures`."""
    slow, reasons, bad, left_out = [], [], [], Counter()
    if data_folder() is None:
        reasons.append("the data is not here (README: Data)")
    if not device:
        reasons.append("this build has no device cuda (the emulator's has)")
    if "TINYTORCH_TEST_FEW" in env:
        reasons.append("they run in the second ring (modules/tt test --only emulator, matches or optimized)")
    commands = [["env", *(f"{k}={v}" for k, v in t.environment.items()), *t.command] for t in tests]
    for i, done in call_all(commands, jobs, seconds, env):
        name = tests[i].name
        own = ["a GPU is needed, which the emulator is not"] if name in NEED_A_GPU else reasons
        passed, failed, why = count_doctest(done.text, done.code, done.timed_out, bool(own))
        tally.ran(name, done)
        slow.append((done.seconds, name))
        if failed:
            bad.append(tests[i])
        if failed and not count_failures:
            continue
        if own and (count := count_skipped(done.text)):
            left_out[" or ".join(own)] += count
        tally.add(passed, failed, name, f"    {why}\n{doctest_errors(done.text) or tail(done.text, 40)}" if failed else "")
    for reason, count in left_out.items():
        tally.skip(count, "cases", reason)
    slow.sort(reverse=True)
    tally.console.say(f"  {sum(t for t, _ in slow):.0f} s in all; slowest: " +
                      ", ".join(f"{n} {s:.1f} s" for s, n in slow[:3]))
    return bad


def stage_tests(tally):
    """Every test file once, by g++; on the emulator, in matches and for other processors' vectors few cases, drawn."""
    draw = random.Random(commit())
    few = {"TINYTORCH_TEST_FEW": "1", "TINYTORCH_TEST_DRAW": str(draw.randrange(2**31))}
    env = cached_environment(TINYMLPERF_REAL_TIME="0", **few)
    SIM.configure(env)
    programs = sorted({Path(t.command[0]).name for t in SIM.tests()})
    vectors = [p for p in programs if p.startswith("test_vectors")]  # each is a test of the same name
    left = draw.sample(vectors, max(0, len(vectors) - 1))
    tests = built_tests(tally, SIM, env, *(p for p in programs if p not in left))
    # Kernels have tests of their own; of the tests that call them through tensors, a quarter runs there as well.
    through_tensors = sorted(t.name for t in tests if t.name.endswith("_cuda"))
    left += draw.sample(through_tensors, len(through_tensors) * 3 // 4)
    tally.skip(len(left), "tests for other processors and of tensors on the emulator",
               "the commit draws some (modules/tt test --only optimized; --only emulator)")
    run_all(tally, [t for t in tests if t.name not in left], env, 300, device=True, device_seconds=1)


def stage_emulator(tally):
    """All cases of what runs on the emulator."""
    env = cached_environment()
    tests = [t for t in built_tests(tally, SIM, env) if "cuda" in t.name]
    run_all(tally, tests, env, 900, device=True)


def stage_matches(tally):
    """Every cheat, every student's header and every command of the judge, in real matches."""
    env = cached_environment()
    run_all(tally, [t for t in built_tests(tally, SIM, env) if re.match(MATCHES, t.name)], env, 900, device=True)


def stage_optimized(tally):
    """Every test on the library as users have it: -O3, without a device."""
    env = cached_environment()
    tests = [t for t in built_tests(tally, OPTIMIZED, env) if not re.match(MATCHES, t.name)]
    run_all(tally, tests, env, 600)


# Parts of the tests under clang and the sanitizers; each is a stage.
CLANG_PARTS = {"core": ("core", "backend", "io", "vectors", "data"), "tensor": ("tensor", "autograd", "tinytorch"),
               "layers": ("layers", "transformer"), "judge": ("tinymlperf", "benchmarking", "profiling")}


def stage_clang(part):
    def run(tally):
        env = cached_environment(OMP_NUM_THREADS="2", TINYMLPERF_REAL_TIME="0")
        wanted = re.compile(rf"test_({'|'.join(CLANG_PARTS[part])})(_|$)")
        CLANG.configure(env)
        programs = sorted({Path(t.command[0]).name for t in CLANG.tests() if wanted.match(t.name)})
        if tally.check(programs, f"clang builds tests of {part}", CLANG.first_errors()):
            tests = built_tests(tally, CLANG, env, *programs)
            run_all(tally, [t for t in tests if wanted.match(t.name)], env, 900)
    run.__doc__ = f"Tests of {', '.join(CLANG_PARTS[part])} by clang++, under the address and undefined-behaviour sanitizers."
    return run


def stage_fuzz(tally):
    """Every fuzzer on its corpus, for 10 seconds."""
    built = CLANG.make("all_fuzzers", env=cached_environment())
    if not tally.check(built, "build of the fuzzers", CLANG.first_errors()):
        return
    runner = ROOT / "tests" / "fuzz" / "run.py"
    names = sorted(p.stem[len("fuzz_"):] for p in runner.parent.glob("fuzz_*.cpp"))
    tally.check(names, "there are fuzzers", "    no tests/fuzz/fuzz_*.cpp")
    kept = CLANG.folder / "fuzz"  # inputs that fail stay here
    kept.mkdir(parents=True, exist_ok=True)
    commands = [[sys.executable, runner, CLANG.folder / "bin" / "fuzz", "--seconds", "10", "--keep", kept, name]
                for name in names]
    for i, done in call_all(commands, CORES, 120):
        passed, failed, why = count_lines(done.text, done.code)
        tally.add(passed, failed, names[i], why)
        tally.console.say("\n".join("  " + l[len("ok - "):] for l in done.text.splitlines() if l.startswith("ok - ")))


def stage_cuda(architecture):
    def run(tally):
        name, build = f"CUDA kernels for sm_{architecture}", CUDA[architecture]
        if not (os.environ.get("CUDACXX") or shutil.which("nvcc")):
            tally.skip(1, name, "nvcc is not here (README: Modules)")
            return
        good = build.make("tinytorch_cuda", "device_submissions", env=cached_environment())
        warnings = build.warnings()
        tally.check(good and not warnings, name, tail("\n".join(warnings[:10])) if good else build.first_errors())
    run.__doc__ = f"All kernels and all device submissions compiled by nvcc for sm_{architecture}."
    return run


# --- Checkers that print their own lines --------------------------------------------------------------------------

def run_checker(tally, name, *arguments, seconds=3000, env=None):
    left = tally.ends - time.monotonic() - 1
    done = call([sys.executable, ROOT / "tests" / name, *arguments], max(1, min(seconds, left)), env=env)
    tally.ran(name, done)
    cut = done.timed_out and left < seconds  # what was found until then counts
    if not cut:
        passed, failed, why = count_lines(done.text, done.code)
    else:
        passed, failed, why = count_lines(done.text, 0) if re.search(r"^(not )?ok - ", done.text, re.M) else (0, 0, "")
    measured = re.findall(r"^# (.*)", done.text, re.M)
    for line in measured:
        tally.console.say("  " + line)
    for line in re.findall(r"^skipped - (.*)", done.text, re.M):
        title, _, reason = line.partition(": ")
        tally.skip(1, title, reason)
    tally.add(passed, failed, name, why)
    if cut:
        raise Cut
    return measured


def stage_hygiene(tally):
    """Lints and their self-tests; what must not compile, all headers together, and a quarter of them, drawn, each alone: by g++."""
    run_checker(tally, "hygiene/run.py", "--draw", commit(), "--only", "self", "lint", "must", "alone", "link",
                env=cached_environment())


def stage_headers(tally):
    """Every header alone by g++ and nvcc, all by clang++; student headers, benchmarks, canaries, and what an include costs."""
    measured = run_checker(tally, "hygiene/run.py", "--only", "alone", "nvcc", "clang", "student", "bench", "canary", "time")
    budgets = [line for line in measured if re.match(r"include .+: \d+\.\d+ s .*\(budget \d", line)]
    umbrella = any(line.startswith("include tinytorch.hpp: ") for line in budgets)
    tally.check(umbrella and len(budgets) > 1, "compile budgets are printed",
                "    hygiene/run.py printed no `# include NAME: N s of processor time (budget N s)` for tinytorch.hpp\n"
                "    and narrower headers")


def stage_course(tally):
    """Of every task: the starter fails by name, the solution passes, and a wrong answer drawn by the commit is rejected."""
    run_checker(tally, "course/run.py", "--tasks", "--wrong", "1", "--draw", commit(), env=cached_environment())


def stage_library(tally):
    """The library's headers pass every check, solutions earn their speed points, all solutions work together."""
    run_checker(tally, "course/run.py", "--library", env=cached_environment())


def stage_answers(module):
    def run(tally):
        run_checker(tally, "course/run.py", "--answers", "--only", module, seconds=7200, env=cached_environment())
    run.__doc__ = f"Every wrong answer of module {module} is rejected."
    return run


def stage_lessons(tally):
    """Every command and every snippet of the lessons is executed."""
    run_checker(tally, "course/lessons.py", env=cached_environment("/"))


def stage_milestones(tally):
    """Each milestone passes on the library and on the solutions, and a broken header fails its gate by name."""
    run_checker(tally, "course/milestones.py", env=cached_environment())


def stage_consumer(tally):
    """One project that uses the library by find_package."""
    run_checker(tally, "packaging/run.py", "--only", "find_package", env=cached_environment())


def stage_packaging(tally):
    """Every way to use the library, and every switch of the build."""
    run_checker(tally, "packaging/run.py")


def stage_browser(tally):
    """The leaderboard in a browser."""
    if not tally.check(GCC.make("bench_board", env=cached_environment()), "build of bench_board", GCC.first_errors()):
        return
    run_checker(tally, "browser/run.py", GCC.folder / "bin" / "bench_board")


# --- Python -------------------------------------------------------------------------------------------------------

def run_python(tally, files):
    """Each file works in a tree of its own."""
    commands = [[sys.executable, "-m", "unittest", "discover", "-s", path.parent, "-p", path.name] for path in files]
    for i, done in call_all(commands, CORES, 900, cached_environment("/")):
        name = f"tests/tt/{files[i].name}"
        skipped = sum(int(n) for n in re.findall(r"skipped=(\d+)", done.text))
        tally.skip(skipped, name, "grading needs a system that allows user namespaces")
        tally.ran(name, done)
        passed, failed, why = count_unittest(done.text, done.code, skipped)
        tally.add(passed, failed, name, why)
        tally.console.say(f"  {files[i].name}: {done.seconds:.0f} s")
    tally.check(files, "there are tests of modules/tt", "    no tests/tt/test_*.py")


# These build, run and grade what students write, dozens of times: a stage of the second ring.
OF_STUDENTS = ("test_course.py", "test_grade.py", "test_explain.py")


def python_files():
    return sorted((ROOT / "tests" / "tt").glob("test_*.py"), key=lambda path: path.stat().st_size, reverse=True)


def stage_python(tally):
    """The suite itself, notebooks' cells, and the scripts of benchmarks."""
    run_python(tally, [path for path in python_files() if path.name not in OF_STUDENTS])


def stage_commands(tally):
    """The commands of a student's day, on a pseudo-terminal too, error codes, and grades in a sandbox."""
    run_python(tally, [path for path in python_files() if path.name in OF_STUDENTS])


def cpp_files():
    listed = call(["git", "ls-files", "*.hpp", "*.cpp", "*.cuh", "*.cu"], 60)
    if listed.code == 0 and listed.text.strip():
        return [f for f in listed.text.split("\n") if f and (ROOT / f).exists()]
    folders = ("include", "examples", "tests", "bench", "modules")
    return [str(p.relative_to(ROOT)) for d in folders for p in (ROOT / d).rglob("*")
            if p.suffix in (".hpp", ".cpp", ".cuh", ".cu")]


def stage_format(tally):
    """clang-format changes nothing."""
    check_format(tally, cpp_files())


def check_format(tally, files):
    # Copies are formatted and compared as text: --dry-run also reports replacements that change nothing (the comment after a
    # namespace). Many files a process: most of the time is its start.
    with tempfile.TemporaryDirectory() as folder:
        for name in [".clang-format", *files]:
            copy = Path(folder, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy)
        commands = [["env", "-C", folder, "clang-format", "--style=file", "-i", *files[i::8 * CORES]] for i in range(8 * CORES)
                    if files[i::8 * CORES]]
        outcomes = [done for _, done in call_all(commands, CORES, 600)]
        ended = all(done.code == 0 for done in outcomes)
        bad = [f for f in files if Path(folder, f).read_bytes() != (ROOT / f).read_bytes()]
    why = "    run clang-format -i on\n" + tail("\n".join(bad), 200) if ended else tail("".join(d.text for d in outcomes))
    tally.check(files and ended and not bad, "clang-format", why)


# --- Programs as users run them -----------------------------------------------------------------------------------

# What an example is called with, so that its run is short and must have learned something.
SHORT_RUNS = {
    "gpt_chars": ["--steps", "150", "--features", "64", "--layers", "2", "--context", "64", "--batch", "8", "--require",
                  "2"],
    "gpt2_train": ["--text", ROOT / "README.md", "--vocabulary", ROOT / "tests/golden/transformer/small_gpt2.json",
                   "--layers", "2", "--heads", "2", "--features", "32", "--context", "32", "--steps", "60", "--lr", "1e-2",
                   "--warm-up", "10", "--evaluate-batches", "5", "--require", "5.6"],
}


def check_runs_of(tally, name, program, arguments, cwd):
    """A run, and one of a few steps in two parts, which must leave the same checkpoint, byte for byte."""
    def run(folder, *more):
        done = call([program, *arguments, "--folder", cwd / folder, *more], 300, cwd=cwd, env=test_environment())
        return done if done.code == 0 else Finished(done.code, f"with {' '.join(map(str, more))}\n{done.text}", done.seconds)

    few = ["--steps", "6", "--require", "0"]
    runs = [run("long", "--save", cwd / "saved"), run("whole", *few), run("parts", *few, "--stop-after", "3"),
            run("parts", *few, "--resume")]
    failed = [done for done in runs if done.code != 0]
    tally.check(not failed, f"examples/{name}.cpp", tail(failed[0].text) if failed else "")
    kept = [cwd / folder / "checkpoint.safetensors" for folder in ("whole", "parts")]
    same = all(path.exists() for path in kept) and kept[0].read_bytes() == kept[1].read_bytes()
    tally.check(same, f"examples/{name}.cpp: stopped and resumed is not stopped", "    the two checkpoints differ")
    written = [cwd / "long/loss.svg", cwd / "saved/model.safetensors", cwd / "saved/config.json"]
    missing = [str(path) for path in written if not path.exists()]
    tally.check(not missing, f"examples/{name}.cpp: curve and model", "    missing: " + ", ".join(missing))
    return sum(done.seconds for done in runs)


def stage_examples(tally):
    """Every example is built and run."""
    sources = sorted(p.stem for p in (ROOT / "examples").glob("*.cpp"))
    tally.check(sources, "there are examples", "    no examples/*.cpp")
    tally.check(GCC.make("all_examples", env=cached_environment()), "build of the examples", GCC.first_errors())
    for name in sources:
        path = GCC.folder / "bin" / "examples" / name
        if name in SHORT_RUNS:
            with tempfile.TemporaryDirectory() as folder:
                seconds = check_runs_of(tally, name, path, SHORT_RUNS[name], Path(folder))
            tally.console.say(f"  {name}: {seconds:.1f} s")
            continue
        arguments = []
        if name == "idx_folder":
            if not data_folder():
                tally.skip(1, "examples/idx_folder.cpp")
                continue
            arguments = [data_folder() / "mnist", "--epochs", "1"]
        done = call([path, *arguments], 300, cwd=GCC.folder) if path.exists() else Finished(127, "it was not built", 0)
        tally.check(done.code == 0 and done.text.strip(), f"examples/{name}.cpp", tail(done.text))
        tally.console.say(f"  {name}: {done.seconds:.1f} s")


def readme_commands(text):
    """The lines of the README's sh blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line.strip() and not line.startswith("#")]


def stage_readme(tally):
    """Every command of the README, the main job among them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = readme_commands(text)
    for command in ("modules/tt run", "modules/tt test"):
        tally.check(command in commands, f"README.md names `{command}`")
    example = re.findall(r"^```cpp\n(.*?)^```", text, re.M | re.S)
    hello = ROOT / "examples" / "hello.cpp"
    same = bool(example) and hello.exists() and example[0] == hello.read_text(encoding="utf-8")
    tally.check(same, "the README's example is examples/hello.cpp", "    the two differ")
    env = cached_environment()

    def run(command):
        return call(["bash", "-euo", "pipefail", "-c", command], 900, env=env)

    # What two of the commands build is built beside the one that calls a compiler itself.
    compiled = next((c for c in commands if c.startswith("g++ ")), None)
    with ThreadPoolExecutor() as pool:
        beside = pool.submit(run, compiled) if compiled else None
        GCC.make("tinymlperf", "example_hello", env=env)
    for command in commands:
        if command.startswith("modules/tt test"):
            continue  # this is it
        done = beside.result() if command == compiled else run(command)
        tally.check(done.code == 0, f"README.md: {command}", tail(done.text))
        tally.ran(command, done)
        tally.console.say(f"  {command}: {done.seconds:.0f} s")


# What all notebooks link is compiled before the first of them, into the folder whose objects they share: build/notebook.
NOTEBOOK_LIBRARY = """import cpp_magic
cpp_magic.magic("", "", False)
cpp_magic.magic("--emulator", "int main() {}", True)
"""
VENV, VENV_LOCK = ROOT / "build" / "notebook-venv", threading.Lock()


def notebook_packages():
    """Installs what executes notebooks, once; what went wrong, or nothing. Most of it is waiting, so that a run begins it
    early, beside its first stages."""
    with VENV_LOCK:
        if (VENV / "ready").exists():
            return ""
        made = call([sys.executable, "-m", "venv", "--clear", VENV], 300)
        packages = ["nbconvert", "ipykernel", "matplotlib"]
        if made.code == 0:
            made = call([VENV / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], 600)
        if made.code != 0:
            return tail(made.text)
        (VENV / "ready").touch()
        return ""


def run_notebooks(tally, notebooks):
    race = ROOT / "build" / "race" / "race.json"
    if not race.exists() and not tally.check(run_race(tally.console)[0] == 0, "a race to plot"):
        return
    why = notebook_packages()
    if not tally.check(not why, "nbconvert and matplotlib from PyPI", why):
        return
    python = VENV / "bin" / "python"
    env = cached_environment(TINYTORCH_RACE=str(race), MPLBACKEND="agg", IPYTHONDIR=str(VENV / "ipython"),
                             PYTHONDONTWRITEBYTECODE="1")
    done = call([python, "-c", NOTEBOOK_LIBRARY], 900, cwd=ROOT / "notebooks", env=env)
    tally.check(done.code == 0, "what all notebooks link", tail(done.text))
    tally.console.say(f"  what all notebooks link: {done.seconds:.1f} s")
    execute_notebooks(tally, python, notebooks, VENV / "out", env)


def all_notebooks():
    return sorted((ROOT / "notebooks").glob("*.ipynb"), key=lambda path: path.stem != "05_profiling")  # the longest first


def stage_notebook(tally):
    """One notebook, drawn by the commit."""
    notebooks = [n for n in all_notebooks() if n.stem != "05_profiling"]  # it takes minutes
    if tally.check(notebooks, "there are notebooks", "    no notebooks/*.ipynb"):
        run_notebooks(tally, [random.Random(commit()).choice(notebooks)])


def stage_notebooks(tally):
    """Every notebook is executed."""
    if tally.check(all_notebooks(), "there are notebooks", "    no notebooks/*.ipynb"):
        run_notebooks(tally, all_notebooks())


def execute_notebooks(tally, python, notebooks, out, env):
    """A check each; the error of a cell ends its notebook with a code that is not 0."""
    commands = [[python, "-m", "nbconvert", "--to", "html", "--execute", "--output-dir", out, path] for path in notebooks]
    for i, done in call_all(commands, CORES, 600, env):
        name, error = f"notebooks/{notebooks[i].name}", done.text.rpartition("CellExecutionError: ")[2]
        tally.check(done.code == 0, name, "    it did not end in time" if done.timed_out else tail(error))
        tally.ran(name, done)
        tally.console.say(f"  {name}: {done.seconds:.1f} s")
