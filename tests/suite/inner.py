"""The inner loop, `modules/tt test PATH...`: runs the tests of these files, found by their includes, in about a minute.

The tests of a header are the test of its own path (tensor/strides.hpp: tests/tensor/strides.cpp) and tests that include it,
directly or through other headers: first those in the folder of its own test, then those with the shortest chain of includes,
as many as compile within the minute. They run on a library compiled at -O0; tests of kernels run on the emulator.
"""
import sys
from pathlib import Path

from suite import checkers, unit_tests
from suite.builds import cached_environment
from suite.counting import Tally
from tools import FAIL, PASS, ROOT, Build, SetupProblem, call, set_up

sys.path.insert(0, str(ROOT / "modules"))
sys.path.insert(0, str(ROOT / "tests" / "hygiene"))
import compilers
import course
import lints

FOLDERS = (ROOT / "tests", ROOT / "bench", ROOT / "include")  # the include path
MOST_FILES, MOST_PROGRAMS = 6, 3  # tests that only include a file: so many compile within a minute
SOURCES = (".hpp", ".cpp", ".cuh", ".cu")


def quick_build(tests, device):
    flags = ("-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DTINYTORCH_WITH_CUDA=SIM") if device else \
        ("-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DTINYTORCH_WITH_CUDA=OFF")
    return Build("quick-sim" if device else "quick", "-DCMAKE_BUILD_TYPE=Debug", *flags, "-DTINYTORCH_FUZZ=OFF",
                 "-DTINYTORCH_TESTS=" + ";".join(tests))


def files_of(paths):
    """The files of these paths; for a folder, all files below it."""
    found = []
    for given in paths:
        path = Path(given).resolve()
        if not path.exists():
            raise SetupProblem(f"{given}: there is no such file or folder")
        if not path.is_relative_to(ROOT):
            raise SetupProblem(f"{given}: the path is not below {ROOT}")
        found += sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts) if path.is_dir() else [path]
    return list(dict.fromkeys(found))


def changed_files():
    """The files that differ from the last commit, and those that git does not track yet."""
    listed = [call(["git", *command], 60) for command in (("diff", "--name-only", "HEAD"),
                                                          ("ls-files", "--others", "--exclude-standard"))]
    if any(done.code != 0 for done in listed):
        raise SetupProblem("--changed needs git, and this folder is not a git repository; name the files instead")
    names = [name for done in listed for name in done.text.splitlines()]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def users():
    """{file: the files that include it directly}"""
    out = {}
    for folder in FOLDERS:
        for file in folder.rglob("*"):
            if file.suffix not in SOURCES:
                continue
            for name in lints.names_included(file):
                path = next((f / name for f in FOLDERS if (f / name).is_file()), None)
                out.setdefault(path, []).append(file)
    return out


def tests_of(files):
    """(test files to run, the shortest chain of includes first; test files left out), as names below tests/."""
    all_tests, graph = unit_tests.test_files(), users()
    own, near = [], {}
    for file in files:
        for folder in FOLDERS:
            if file.is_relative_to(folder):
                name = file.relative_to(folder)
                mirrored = Path(*name.parts[1:]) if name.parts[0] == "tinytorch" and len(name.parts) > 2 else name
                own += [n for n in dict.fromkeys((str(name), str(mirrored.with_suffix(".cpp")))) if n in all_tests and n not in own]
        steps, waiting = {file: 0}, [file]
        for at in waiting:  # a breadth-first search; the list grows inside the loop
            for user in graph.get(at, []):
                if user not in steps:
                    steps[user] = steps[at] + 1
                    waiting.append(user)
        for path, distance in steps.items():
            name = str(path.relative_to(ROOT / "tests")) if path.is_relative_to(ROOT / "tests") else ""
            if name in all_tests and name not in own:
                near[name] = min(distance, near.get(name, distance))
    chosen, left = list(own), []
    folders = {Path(o).parent for o in own}  # the programs of these folders are compiled anyway
    for name in sorted(near, key=lambda n: (Path(n).parent not in folders, near[n], n)):
        programs = {Path(n).parent for n in [*chosen, name]}
        fits = len(chosen) < len(own) + MOST_FILES and len(programs) <= max(MOST_PROGRAMS, len(folders))
        (chosen if fits else left).append(name)
    return chosen, left


def python_tests_of(files):
    """Python tests that are one of these files or import one of them."""
    stems = {f.stem for f in files if f.suffix == ".py" or f == ROOT / "modules" / "tt"}
    stems |= {"suite"} if any(f.is_relative_to(ROOT / "tests" / "suite") for f in files) else set()
    return [t for t in checkers.python_files() if t in files or any(f"import {s}" in t.read_text() or t.stem == f"test_{s}" for s in stems)]


def tasks_of(files):
    """The numbers of the tasks of the course to which these files below modules/ belong."""
    found = []
    for task in course.Course().tasks:
        own = {task.check, task.speed_program, task.module.reference(task.path), task.module.frame(task.header), task.module.folder / "hints.json",
               *(task.module.folder / folder / f"{task.slug}.txt" for folder in ("wrong", "slow"))}
        if any(f in own and f.is_relative_to(ROOT / "modules") for f in files):
            found.append(task.id)
    return found


def run_tests(tally, tests, device):
    build, env = quick_build(tests, device), cached_environment(TINYTORCH_TEST_FEW="1")
    if not tally.check(build.make("all_tests", env=env), f"build in {build.folder.relative_to(ROOT)}", build.first_errors()):
        return
    unit_tests.run_all(tally, [t for t in build.tests() if set(t.labels) <= set(tests)], env, 300, device, device_seconds=5)


def run(console, options):
    files = changed_files() if options.changed else files_of(options.paths)
    if not files:
        console.say("nothing has changed since the last commit\n0 passed, 0 failed")
        return PASS
    set_up(console, "test", not options.no_install)
    tally, tree = Tally(console), lints.Tree(ROOT)
    sources = [f for f in files if f.suffix in SOURCES]
    tests, left = tests_of(sources)
    python, tasks = python_tests_of(files), tasks_of(files)
    if sources:
        checkers.check_format(tally, [str(f.relative_to(ROOT)) for f in sources])
    for header in (f for f in sources if f.is_relative_to(ROOT / "include") and f.suffix == ".hpp"):
        good, why = compilers.header_alone(tree, header.relative_to(ROOT / "include"))
        tally.check(good, f"alone: {header.relative_to(ROOT / 'include' / 'tinytorch')}", why)
    kernels = [t for t in tests if t.startswith("backend/cuda/")]
    plain = [t for t in tests if t not in kernels]
    if plain or kernels:
        console.say("tests: " + ", ".join(plain + kernels))
    if plain:
        run_tests(tally, plain, False)
    if kernels:
        run_tests(tally, kernels, True)
    if python:
        checkers.run_python(tally, python)
    if tasks:
        console.say("tasks: " + ", ".join(tasks))
        only = [word for task in tasks for word in ("--only", task)]
        checkers.run_checker(tally, "course/run.py", "--tasks", *only, env=cached_environment())
    if left:
        console.say(f"{len(left)} more test files include these files through longer chains: modules/tt test --only tests")
    if tally.passed + tally.failed == 0:
        tally.check(False, "there is a test of these files", "    no test, header or task uses them: modules/tt test")
    console.say(f"{tally.seconds():.0f} s")
    console.result({"command": "test", "passed": tally.passed, "failed": tally.failed, "skipped": tally.skipped,
                    "tests": tests, "left_out": left, "tasks": tasks, "seconds": round(tally.seconds(), 1)})
    console.say(tally.line())
    return FAIL if tally.failed else PASS

