"""Stages whose checks are separate programs: clang-format, the scripts of tests/ that print one line for each check, and tests
in Python."""
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from suite.builds import CLANG, SIM, cached_environment, commit, test_environment
from suite.counting import Cut, count_lines, count_unittest
from tools import CORES, GCC, ROOT, call, call_all, tail


def cpp_files():
    listed = call(["git", "ls-files", "*.hpp", "*.cpp", "*.cuh", "*.cu"], 60)
    if listed.code == 0 and listed.text.strip():
        return [f for f in listed.text.split("\n") if f and (ROOT / f).exists()]
    folders = ("include", "examples", "tests", "bench", "modules")
    return [str(p.relative_to(ROOT)) for d in folders for p in (ROOT / d).rglob("*")
            if p.suffix in (".hpp", ".cpp", ".cuh", ".cu")]


def stage_format(tally):
    """clang-format changes no file."""
    check_format(tally, cpp_files())


def check_format(tally, files):
    # Copies are formatted and compared as text, because --dry-run also reports replacements that change nothing (the comment
    # after a namespace). Each process formats many files, because its start takes most of the time.
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


# --- Scripts that print a line for each check ---------------------------------------------------------------------

def run_checker(tally, name, *arguments, seconds=3000, env=None):
    left = tally.ends - time.monotonic() - 1
    done = call([sys.executable, ROOT / "tests" / name, *arguments], max(1, min(seconds, left)), env=env)
    tally.ran(name, done)
    cut = done.timed_out and left < seconds  # the checks that it printed before its end count
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
    """By g++: lints and their self-tests; code that must not compile; all headers in one file (by clang++, too, if it is there); a
    random eighth of the headers and those that changed within a day, each compiled alone; canaries (a student's header takes
    effect)."""
    run_checker(tally, "hygiene/run.py", "--draw", commit(), "--only", "self", "lint", "must", "alone", "link", "clang-headers",
                "canary", env=cached_environment())


def stage_headers(tally):
    """Every header compiled alone by g++ and nvcc, and all headers by clang++; student headers; benchmarks compile; the compile
    time of each include is within its budget."""
    measured = run_checker(tally, "hygiene/run.py", "--only", "alone", "nvcc", "clang", "clang-headers", "student", "bench",
                           "time")
    budgets = [line for line in measured if re.match(r"include .+: \d+\.\d+ s .*\(budget \d", line)]
    umbrella = any(line.startswith("include tinytorch.hpp: ") for line in budgets)
    tally.check(umbrella and len(budgets) > 1, "compile budgets are printed",
                "    hygiene/run.py printed no `# include NAME: N s of processor time (budget N s)` for tinytorch.hpp\n"
                "    and narrower headers")


def stage_course(tally):
    """For every task: the starter fails with the name of the task, the solution passes, and a randomly chosen wrong answer is
    rejected. Two randomly chosen files of the last version pass after migration."""
    run_checker(tally, "course/run.py", "--tasks", "--wrong", "1", "--migrated", "2", "--draw", commit(), env=cached_environment())


def stage_library(tally):
    """The library's headers pass every check, solutions earn their speed points, and all solutions work together. All files of
    the last version pass after migration."""
    run_checker(tally, "course/run.py", "--library", "--migrated", env=cached_environment())


def stage_answers(module):
    def run(tally):
        run_checker(tally, "course/run.py", "--answers", "--only", module, seconds=7200, env=cached_environment())
    run.__doc__ = f"Every wrong answer of module {module} is rejected."
    return run


def stage_mutants(tally):
    """Two randomly chosen mutants of each solution whose survivors are all explained: the check must reject them."""
    run_checker(tally, "course/mutate.py", "--proven", "--limit", "2", "--draw", commit(), env=cached_environment())


def stage_lessons(tally):
    """Every command and every code block of the lessons is executed."""
    run_checker(tally, "course/lessons.py", env=cached_environment("/"))


def stage_milestones(tally):
    """Each milestone passes with the library and with the solutions, and a header with a fault fails the gate that tests it."""
    run_checker(tally, "course/milestones.py", env=cached_environment())


def stage_consumer(tally):
    """Another project finds the library of the stage `tests` with find_package and uses it."""
    run_checker(tally, "packaging/run.py", "--only", "find_package", "--build", SIM.folder, env=cached_environment())


def stage_packaging(tally):
    """Every way to use the library from another project, and every option of the build."""
    run_checker(tally, "packaging/run.py")


def stage_browser(tally):
    """The leaderboard works in a browser."""
    if not tally.check(GCC.make("bench_board", env=cached_environment()), "build of bench_board", GCC.first_errors()):
        return
    run_checker(tally, "browser/run.py", GCC.folder / "bin" / "bench_board")


def packages_of_client():
    """A virtual environment with the package `openai` from PyPI, the client of the server's test, or None if it cannot be made."""
    folder = ROOT / "build" / "openai-venv"
    if not (folder / "ready").exists():
        made = call([sys.executable, "-m", "venv", "--clear", folder], 300)
        if made.code == 0:
            made = call([folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "openai"], 600)
        if made.code != 0:
            return None
        (folder / "ready").touch()
    return folder


def run_server_test(tally, build, *arguments):
    """tests/serving/run.py with the server of a build."""
    packages = packages_of_client()
    run_checker(tally, "serving/run.py", build.folder / "bin" / "examples" / "serve", *arguments,
                *(["--packages", packages] if packages else []),
                env=test_environment(ASAN_OPTIONS="detect_leaks=1:quarantine_size_mb=16"))  # freed memory counts as growth


def stage_server(tally):
    """The server of `examples/serve.cpp` under clang++ and the sanitizers; ten thousand of its streams are aborted."""
    if tally.check(CLANG.make("example_serve", env=cached_environment()), "build of example_serve", CLANG.first_errors()):
        run_server_test(tally, CLANG, "--aborts", "10000")


# --- Tests in Python ----------------------------------------------------------------------------------------------

def run_python(tally, files):
    """Runs test files at the same time. Each works in a copy of the project of its own."""
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


# These tests build, run and grade student files dozens of times, so they are a stage of the second ring.
OF_STUDENTS = ("test_course.py", "test_grade.py", "test_explain.py")


def python_files():
    return sorted((ROOT / "tests" / "tt").glob("test_*.py"), key=lambda path: path.stat().st_size, reverse=True)


def stage_python(tally):
    """Tests in Python of the test suite, the API index, the cells of notebooks, and the scripts of benchmarks."""
    run_python(tally, [path for path in python_files() if path.name not in OF_STUDENTS])


def stage_commands(tally):
    """Tests in Python of the commands that a student uses, some on a pseudo-terminal, of error codes, and of grading in a
    sandbox."""
    run_python(tally, [path for path in python_files() if path.name in OF_STUDENTS])
