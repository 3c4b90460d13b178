"""The stages of `modules/tt test`: everything that must hold, counted. Whatever proves nothing is a failure."""
import math
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "modules"))
from tools import (BAD, CORES, FAIL, GCC, GOOD, PASS, ROOT, Build, Finished, SetupProblem, call, call_all, run_race, running,
                   set_up, stop, tail)

# --- Counting ----------------------------------------------------------------------------------------------------

class Tally:
    """whole: all stages are to be run, in the time that a whole run may take."""

    def __init__(self, console, whole=False):
        self.console, self.passed, self.failed, self.skipped, self.stages, self.reasons = console, 0, 0, 0, [], []
        self.whole, self.left_out = whole, []
        self.began = time.monotonic()

    def minutes(self):
        return (time.monotonic() - self.began) / 60

    def fits(self, stage):
        """Whether the time that is left is enough for a stage, on a machine as quick as the stages so far say."""
        usual = sum(USUAL[s["stage"]] for s in self.stages if s["stage"] not in self.left_out)
        slowness = 60 * self.minutes() / usual if usual else 1
        return not self.whole or self.minutes() + slowness * USUAL[stage] / 60 < MINUTES

    def add(self, passed, failed, what, why=""):
        self.passed += passed
        self.failed += failed
        if failed:
            reason = f"  {BAD} {what}: {failed} failed, {passed} passed" + (f"\n{why}" if why else "")
            self.console.say(reason)
            self.reasons.append(reason)

    def check(self, good, what, why=""):
        self.add(1 if good else 0, 0 if good else 1, what, why)
        return good

    def line(self):
        skipped = f"{self.skipped} skipped, " if self.skipped else ""
        return f"{skipped}{self.passed} passed, {self.failed} failed"

    def skip(self, count, what, why="the data is not here (README: Data)"):
        self.skipped += count
        if count:
            self.console.say(f"  - {what}: {count} skipped, {why}")


SUMMARY = re.compile(r"\[doctest\] test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed\s*\|\s*(\d+) skipped")


def data_folder():
    """Real data, which is optional and never downloaded; without it the cases that need it are skipped."""
    folder = Path(os.environ.get("TINYTORCH_DATA", ROOT.parent / "shared" / "data"))
    return folder if folder.is_dir() else None


def count_skipped(text):
    return sum(int(found[3]) for found in SUMMARY.findall(re.sub(r"\x1b\[[0-9;]*m", "", text))[-1:])


def count_doctest(text, code, timed_out=False, may_skip=False):
    """(passed, failed, why) of one doctest executable. Whatever proves nothing is a failure."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    found = SUMMARY.findall(plain)
    if timed_out:
        return 0, 1, "it did not end in time"
    if not found:
        return 0, 1, f"it ended with code {code} and without doctest's summary (crash?)"
    total, passed, failed, skipped = (int(x) for x in found[-1])
    if total == 0 and not (may_skip and skipped):
        return 0, 1, "no test case was run"
    if skipped and not may_skip:
        return passed, failed + skipped, f"{skipped} cases were skipped"
    if code != 0 and failed == 0:
        return passed, 1, f"all cases passed, but it ended with code {code}"
    return passed, failed, f"{failed} of {total} cases" if failed else ""


def doctest_errors(text):
    """What doctest says of the failed checks, without all that the program printed between them."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    found = re.findall(r"^\S+:\d+: (?:FATAL )?ERROR: .*?\n(?=\n|\S+:\d+:|=====)", plain, re.M | re.S)
    return tail("".join(found), 60)


def count_lines(text, code):
    """(passed, failed, why) of a checker that prints `ok - name` and `not ok - name` lines."""
    good = len(re.findall(r"^ok - ", text, re.M))
    bad = len(re.findall(r"^not ok - ", text, re.M))
    broken = re.search(r"^Traceback .*", text, re.M | re.S)  # what it had found until then says nothing of the rest
    if broken:
        return good, bad + 1, "    it broke before its end\n" + tail(broken[0])
    if good + bad == 0:
        return 0, 1, f"no check was run (code {code})\n" + tail(text)
    if code != 0 and bad == 0:
        return good, 1, f"all checks passed, but it ended with code {code}\n" + tail(text)
    lines, keep, shown = text.splitlines(), False, []
    for line in lines:
        keep = line.startswith("not ok - ") or (keep and line.startswith(" "))
        if keep:
            shown.append("    " + line)
    return good, bad, "\n".join(shown[:120])


def count_unittest(text, code, may_skip=0):
    """(passed, failed, why); so many tests may be skipped, and are then neither."""
    ran = re.search(r"^Ran (\d+) tests?", text, re.M)
    total = int(ran.group(1)) if ran else 0
    if total == 0:
        return 0, 1, "no test was run\n" + tail(text)
    bad = sum(int(x) for x in re.findall(r"(?:failures|errors|skipped|unexpected successes)=(\d+)", text))
    bad = max(bad - may_skip, 1 if code != 0 else 0)
    return total - may_skip - min(bad, total), bad, tail(text, 40) if bad else ""


# --- The stages of `tt test` -------------------------------------------------------------------------------------

# The tests, with the emulator as the device `cuda`: those of tensors, autograd and layers run there once more.
SIM = Build("sim", "-DCMAKE_BUILD_TYPE=Release", "-DTINYTORCH_WITH_CUDA=SIM", "-DTINYTORCH_FUZZ=OFF")
# The second compiler and the sanitizers share a build: every test runs under both, and is compiled twice, not thrice.
CLANG = Build("clang", "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_BUILD_TYPE=Release", "-DTINYTORCH_FUZZ=ON",
              "-DTINYTORCH_SANITIZE=address,undefined")

# Every kernel for the oldest and the newest architecture, side by side; no GPU is needed. The oldest unoptimized, which
# takes a third of the time. -Werror, so that a warning is an error in the next run as well.
CUDA = {architecture: Build(f"cuda_{architecture}", "-DTINYTORCH_WITH_CUDA=ON", "-DCMAKE_BUILD_TYPE=Release",
                            f"-DTINYTORCH_CUDA_ARCHITECTURES={architecture}", "-DTINYTORCH_FUZZ=OFF",
                            f"-DCMAKE_CUDA_FLAGS=-Werror=all-warnings {more}".strip())
        for architecture, more in (("75", "-Xcicc=-O0 -Xptxas=-O0"), ("90a", ""))}


def test_environment(**more):
    env = dict(os.environ, OMP_WAIT_POLICY="passive", ASAN_OPTIONS="detect_leaks=1:abort_on_error=0",
               LSAN_OPTIONS=f"suppressions={ROOT}/tests/support/leaks.supp:print_suppressions=0",
               UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
    env.update(more)
    return env


CCACHE = "/usr/lib/ccache"  # compilers by their own names, as Debian's package has them


def cached_environment(**more):
    """For what compiles the same in many copies of the project: a compiler answers from what it was asked before, wherever
    the copy lies (its paths are taken relative to it), and says paths in full."""
    env = test_environment(CCACHE_DIR=str(ROOT / "build" / "ccache"), CCACHE_BASEDIR="/", CCACHE_NOHASHDIR="1",
                           CCACHE_ABSSTDERR="1", CCACHE_PATH="/usr/bin:/usr/local/bin", CCACHE_MAXSIZE="4G",
                           CCACHE_SLOPPINESS="pch_defines,time_macros,include_file_mtime,include_file_ctime", **more)
    return dict(env, PATH=f"{CCACHE}:{env['PATH']}") if Path(CCACHE, "g++").exists() else env


def build_and_run(tally, build, env, seconds, *extra_targets, device=False, again=False):
    """Builds all tests, counts what every executable says, and holds the compiler to silence.

    device: the build has a device `cuda`. Without one, the cases that need it are skipped.
    again: what measures time, and fails beside other tests, has the machine to itself once more, and this counts."""
    built = build.make("all_tests", *extra_targets)
    tally.check(built, f"build in {build.folder.relative_to(ROOT)}", build.first_errors() if not built else "")
    if not (build.folder / "CMakeCache.txt").exists():
        return
    warnings = build.warnings()
    tally.check(not warnings, "the compiler has nothing to say", tail("\n".join(warnings[:10])))
    tests = build.tests()
    sources = {p.relative_to(ROOT / "tests").as_posix() for p in (ROOT / "tests").rglob("*.cpp")}
    sources = {s for s in sources if s.split("/")[0] not in
               ("support", "hygiene", "packaging", "fuzz", "golden", "tt", "exploits")}
    of_tests = {source for *_, labels in tests for source in labels}
    tally.check(of_tests and of_tests == sources, "every test file is part of a test",
                "    " + ", ".join(sorted(of_tests ^ sources)))
    for name, path, *_ in tests:
        if not Path(path).exists():
            tally.check(False, name, "    it was not built")
    ready = [t for t in tests if Path(t[1]).exists()]
    # What runs on the emulator uses one core.
    on_device = [t for t in ready if device and "cuda" in t[0]]
    measuring = [t for t in ready if again and re.match("test_(tinymlperf|benchmarking|profiling)", t[0])]
    run_tests(tally, [t for t in ready if t not in on_device + measuring], CORES, env, seconds, device)
    beside = dict(env, TINYMLPERF_REAL_TIME="0")  # no match goes before the other tests
    failed = run_tests(tally, measuring, CORES, beside, seconds, device, count_failures=False) if measuring else []
    if failed:
        tally.console.say("  once more, alone: " + ", ".join(name for name, *_ in failed))
        run_tests(tally, failed, 1, env, seconds, device)
    if on_device:
        run_tests(tally, on_device, CORES, dict(env, OMP_NUM_THREADS="1"), seconds, device)


# The suite's builds have the emulator or no device: what needs a GPU itself is skipped in all of them.
NEED_A_GPU = ("test_tinymlperf_device_exploits",)


def run_tests(tally, tests, jobs, env, seconds, device, count_failures=True):
    """Runs and counts; the tests that failed, which do not count without `count_failures`."""
    slow, reasons, bad = [], [], []
    if data_folder() is None:
        reasons.append("the data is not here (README: Data)")
    if not device:
        reasons.append("this build has no device cuda (the emulator's has)")
    commands = [["env", *(f"{k}={v}" for k, v in more.items()), path] for _, path, more, _ in tests]
    for i, done in call_all(commands, jobs, seconds, env):
        name = tests[i][0]
        own = ["a GPU is needed, which the emulator is not"] if name in NEED_A_GPU else reasons
        passed, failed, why = count_doctest(done.text, done.code, done.timed_out, bool(own))
        slow.append((done.seconds, name))
        if failed:
            bad.append(tests[i])
        if failed and not count_failures:
            continue
        if own:
            tally.skip(count_skipped(done.text), name, " or ".join(own))
        tally.add(passed, failed, name, f"    {why}\n{doctest_errors(done.text) or tail(done.text, 40)}" if failed else "")
    slow.sort(reverse=True)
    tally.console.say(f"  {sum(t for t, _ in slow):.0f} s in all; slowest: " +
                      ", ".join(f"{n} {s:.1f} s" for s, n in slow[:3]))
    return bad


def stage_gcc(tally):
    build_and_run(tally, SIM, test_environment(), 900, device=True, again=True)


def stage_clang(tally):
    build_and_run(tally, CLANG, test_environment(OMP_NUM_THREADS="2", TINYMLPERF_REAL_TIME="0"), 900, "all_fuzzers",
                  again=True)


def run_checker(tally, name, *arguments, seconds=3000, env=None):
    done = call([sys.executable, ROOT / "tests" / name, *arguments], seconds, env=env)
    passed, failed, why = count_lines(done.text, done.code)
    measured = re.findall(r"^# (.*)", done.text, re.M)
    for line in measured:
        tally.console.say("  " + line)
    for line in re.findall(r"^skipped - (.*)", done.text, re.M):
        title, _, reason = line.partition(": ")
        tally.skip(1, title, reason)
    tally.add(passed, failed, name, why)
    return measured


def stage_hygiene(tally):
    measured = run_checker(tally, "hygiene/run.py")
    budgets = [line for line in measured if re.match(r"include .+: \d+\.\d+ s .*\(budget \d", line)]
    umbrella = any(line.startswith("include tinytorch.hpp: ") for line in budgets)
    tally.check(umbrella and len(budgets) > 1, "compile budgets are printed",
                "    hygiene/run.py printed no `# include NAME: N s of processor time (budget N s)` for tinytorch.hpp\n"
                "    and narrower headers")


def stage_lessons(tally):
    run_checker(tally, "course/lessons.py", env=cached_environment())


def stage_milestones(tally):
    run_checker(tally, "course/milestones.py", env=cached_environment())


def stage_course(tally):
    run_checker(tally, "course/run.py", "--wrong", "0", env=cached_environment())


def stage_answers(tally):
    """All wrong answers; in a whole run half of them, others every day."""
    until = ["--minutes", ANSWER_MINUTES] if tally.whole else []
    run_checker(tally, "course/run.py", "--answers", *until, seconds=7200, env=cached_environment())


def stage_packaging(tally):
    run_checker(tally, "packaging/run.py")


def stage_cuda(tally):
    if not (os.environ.get("CUDACXX") or shutil.which("nvcc")):
        tally.skip(1, "CUDA kernels for sm_75 and sm_90a", "nvcc is not here (README: Modules)")
        return
    with ThreadPoolExecutor() as pool:
        built = dict(zip(CUDA, pool.map(lambda build: build.make("tinytorch_cuda", "device_submissions"), CUDA.values())))
    for architecture, build in CUDA.items():
        name, good, warnings = f"CUDA kernels for sm_{architecture}", built[architecture], build.warnings()
        tally.check(good and not warnings, name, tail("\n".join(warnings[:10])) if good else build.first_errors())


def stage_fuzz(tally):
    if not tally.check(CLANG.make("all_fuzzers"), "build of the fuzzers", CLANG.first_errors()):
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


def stage_python(tally):
    # Each file works in a tree of its own.
    files = sorted((ROOT / "tests" / "tt").glob("test_*.py"), key=lambda path: path.stat().st_size, reverse=True)
    commands = [[sys.executable, "-m", "unittest", "discover", "-s", path.parent, "-p", path.name] for path in files]
    for i, done in call_all(commands, CORES, 900, cached_environment()):
        skipped = sum(int(n) for n in re.findall(r"skipped=(\d+)", done.text))
        tally.skip(skipped, f"tests/tt/{files[i].name}", "grading needs a system that allows user namespaces")
        passed, failed, why = count_unittest(done.text, done.code, skipped)
        tally.add(passed, failed, f"tests/tt/{files[i].name}", why)
        tally.console.say(f"  {files[i].name}: {done.seconds:.0f} s")
    tally.check(files, "there are tests of modules/tt", "    no tests/tt/test_*.py")


def cpp_files():
    listed = call(["git", "ls-files", "*.hpp", "*.cpp", "*.cuh", "*.cu"], 60)
    if listed.code == 0 and listed.text.strip():
        return [f for f in listed.text.split("\n") if f and (ROOT / f).exists()]
    folders = ("include", "examples", "tests", "bench", "modules")
    return [str(p.relative_to(ROOT)) for d in folders for p in (ROOT / d).rglob("*")
            if p.suffix in (".hpp", ".cpp", ".cuh", ".cu")]


def stage_format(tally):
    # Compared as text: --dry-run also reports replacements that change nothing (the comment after a namespace).
    files = cpp_files()
    outcomes = call_all([["clang-format", "--style=file", f] for f in files], CORES, 60)
    bad = [files[i] for i, done in outcomes
           if done.code != 0 or done.text != (ROOT / files[i]).read_text(encoding="utf-8")]
    tally.check(files and not bad, "clang-format", "    run clang-format -i on\n" + tail("\n".join(bad), 200))


def stage_browser(tally):
    if not tally.check(GCC.make("bench_board"), "build of bench_board", GCC.first_errors()):
        return
    run_checker(tally, "browser/run.py", GCC.folder / "bin" / "bench_board")


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
    sources = sorted(p.stem for p in (ROOT / "examples").glob("*.cpp"))
    tally.check(sources, "there are examples", "    no examples/*.cpp")
    # With what the next stages use: a large file beside small ones keeps all cores at work.
    tally.check(GCC.make("all_examples", "bench_board", "tinymlperf"), "build of the examples", GCC.first_errors())
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
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = readme_commands(text)
    for command in ("modules/tt run", "modules/tt test"):
        tally.check(command in commands, f"README.md names `{command}`")
    example = re.findall(r"^```cpp\n(.*?)^```", text, re.M | re.S)
    hello = ROOT / "examples" / "hello.cpp"
    same = bool(example) and hello.exists() and example[0] == hello.read_text(encoding="utf-8")
    tally.check(same, "the README's example is examples/hello.cpp", "    the two differ")
    for command in commands:
        if command == "modules/tt test":
            continue  # this is it
        done = call(["bash", "-euo", "pipefail", "-c", command], 900)
        tally.check(done.code == 0, f"README.md: {command}", tail(done.text))
        tally.console.say(f"  {command}: {done.seconds:.0f} s")


# What all notebooks link is compiled before the first of them, into the folder whose objects they share: build/notebook.
NOTEBOOK_LIBRARY = """import cpp_magic
cpp_magic.magic("", "", False)
cpp_magic.magic("--emulator", "int main() {}", True)
"""


def stage_notebook(tally):
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    tally.check(notebooks, "there are notebooks", "    no notebooks/*.ipynb")
    race = ROOT / "build" / "race" / "race.json"
    if not race.exists() and not tally.check(run_race(tally.console)[0] == 0, "a race to plot"):
        return
    venv = ROOT / "build" / "notebook-venv"
    python = venv / "bin" / "python"
    if not (venv / "ready").exists():
        made = call([sys.executable, "-m", "venv", "--clear", venv], 300)
        packages = ["nbconvert", "ipykernel", "matplotlib"]
        if made.code == 0:
            made = call([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], 600)
        if not tally.check(made.code == 0, "nbconvert and matplotlib from PyPI", tail(made.text)):
            return
        (venv / "ready").touch()
    env = cached_environment(TINYTORCH_RACE=str(race), MPLBACKEND="agg", IPYTHONDIR=str(venv / "ipython"),
                             PYTHONDONTWRITEBYTECODE="1")
    done = call([python, "-c", NOTEBOOK_LIBRARY], 900, cwd=ROOT / "notebooks", env=env)
    tally.check(done.code == 0, "what all notebooks link", tail(done.text))
    tally.console.say(f"  what all notebooks link: {done.seconds:.1f} s")
    execute_notebooks(tally, python, notebooks, venv / "out", env)


def execute_notebooks(tally, python, notebooks, out, env):
    """A check each; the error of a cell ends its notebook with a code that is not 0."""
    notebooks = sorted(notebooks, key=lambda path: path.stem != "05_profiling")  # it takes as long as all others
    commands = [[python, "-m", "nbconvert", "--to", "html", "--execute", "--output-dir", out, path] for path in notebooks]
    for i, done in call_all(commands, CORES, 600, env):
        name, error = f"notebooks/{notebooks[i].name}", done.text.rpartition("CellExecutionError: ")[2]
        tally.check(done.code == 0, name, "    it did not end in time" if done.timed_out else tail(error))
        tally.console.say(f"  {name}: {done.seconds:.1f} s")


STAGES = {  # what is quick and the main proof first; README runs the main job whose JSON the notebook reads
    "python": stage_python, "format": stage_format, "hygiene": stage_hygiene, "gcc": stage_gcc, "examples": stage_examples,
    "browser": stage_browser, "readme": stage_readme, "cuda": stage_cuda, "clang": stage_clang, "packaging": stage_packaging,
    "notebook": stage_notebook, "lessons": stage_lessons, "fuzz": stage_fuzz, "milestones": stage_milestones,
    "course": stage_course, "answers": stage_answers,
}
# The whole suite is to end within 90 minutes, also where a machine is half as quick as yesterday: a stage that would not fit
# is left out, and said. Run alone, by name, each is whole.
MINUTES, MINUTES_AT_MOST = 80, 87
# The last ones, in an order that each commit draws anew, so that a slow machine does not always leave out the same. Fuzzers
# lie in clang's build, and are left out with it.
LAST = (("clang", "fuzz"), ("packaging",), ("notebook",), ("lessons",), ("milestones",), ("course",),
        ("answers",))
# Seconds of each stage on two slow cores; a run compares its own with them, to know how quick its machine is.
USUAL = {"python": 250, "format": 32, "hygiene": 500, "gcc": 1650, "examples": 320, "browser": 60, "readme": 200, "cuda": 410,
         "clang": 1150, "packaging": 290, "notebook": 390, "lessons": 236, "fuzz": 100, "milestones": 230, "course": 750,
         "answers": 600}
ANSWER_MINUTES = 9


def stages_of(commit):
    last = random.Random(commit).sample(LAST, len(LAST))
    return [s for s in STAGES if not any(s in group for group in LAST)] + [s for group in last for s in group]


def processor_seconds():
    """Of this process and of all children that ended: what a stage costs, whatever else the machine does."""
    return sum(os.times()[:4])


def say_times(console, stages):
    console.say(f"\n{'stage':<12}{'passed':>8}{'failed':>8}{'seconds':>9}{'processor':>11}")
    total = {key: sum(s[key] for s in stages) for key in ("passed", "failed", "seconds", "processor_seconds")}
    for row in stages + [dict(total, stage="all")]:
        console.say(f"{row['stage']:<12}{row['passed']:>8}{row['failed']:>8}{row['seconds']:>9.0f}"
                    f"{row['processor_seconds']:>11.0f}")
    console.say()


class Overtime(KeyboardInterrupt):
    """The run has taken as long as it may: who waits for it would end it, and see no result at all."""


def raise_overtime(*_):
    for child in list(running):
        stop(child)
    raise Overtime


def run(console, options):
    unknown = [s for s in (options.only or []) + options.skip if s not in STAGES]
    if unknown:
        raise SetupProblem(f"no stage named {', '.join(unknown)}; there are {', '.join(STAGES)}")
    tally, interrupted = Tally(console, whole=not options.only), False  # what is installed takes of the time, too
    set_up(console, "test", not options.no_install)
    if tally.whole:
        signal.signal(signal.SIGALRM, raise_overtime)
        signal.alarm(math.ceil(60 * (MINUTES_AT_MOST - tally.minutes())))
    stages = options.only or stages_of(call(["git", "rev-parse", "HEAD"], 60).text.strip())
    for name in [s for s in stages if s not in options.skip]:
        console.say(f"{name} \u2026")
        before, stage_began, cpu_began = (tally.passed, tally.failed, tally.skipped), time.monotonic(), processor_seconds()
        try:
            without_its_build = name == "fuzz" and "clang" in tally.left_out
            if tally.fits(name) and not without_its_build:
                STAGES[name](tally)
            else:
                tally.left_out.append(name)
                tally.skip(1, name, f"{tally.minutes():.0f} minutes are gone (modules/tt test --only {name})")
        except KeyboardInterrupt as reason:
            interrupted = True
            if isinstance(reason, Overtime):
                tally.check(False, name, f"    it was stopped: {MINUTES_AT_MOST} minutes are gone")
        except (OSError, ValueError, KeyError) as problem:  # a stage that breaks is a failure, the others still run
            tally.check(False, name, f"    {type(problem).__name__}: {problem}")
        passed, failed = tally.passed - before[0], tally.failed - before[1]
        skipped, seconds = tally.skipped - before[2], time.monotonic() - stage_began
        tally.stages.append({"stage": name, "passed": passed, "failed": failed, "skipped": skipped,
                             "seconds": round(seconds, 1), "processor_seconds": round(processor_seconds() - cpu_began, 1)})
        if interrupted:
            break
        if passed + failed + skipped == 0:
            tally.check(False, name, "    the stage checked nothing")
        mark = BAD if tally.failed > before[1] else GOOD if passed else "-"
        left_out = f", {skipped} skipped" if skipped else ""
        console.say(f"  {mark} {name}: {passed} passed, {tally.failed - before[1]} failed{left_out}, {seconds:.0f} s")
    signal.alarm(0)
    console.result({"command": "test", "passed": tally.passed, "failed": tally.failed, "skipped": tally.skipped,
                    "stages": tally.stages, "interrupted": interrupted, "seconds": round(60 * tally.minutes(), 1)})
    say_times(console, tally.stages)
    for reason in tally.reasons:  # once more, where who reads only the end of a long log finds it
        console.say("\n".join(reason.splitlines()[:12]) + "\n")
    if interrupted:
        console.say("interrupted: the rest was not run")
    console.say(tally.line())
    return FAIL if interrupted or tally.failed or not tally.passed else PASS

