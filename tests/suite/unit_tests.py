"""Stages of C++ code: all tests by g++ and by clang++, on the CPU and on the emulator, the fuzzers, and the kernels by nvcc."""
import os
import random
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

from suite.builds import CLANG, CUDA, OPTIMIZED, SIM, cached_environment, commit, data_folder
from suite.counting import count_doctest, count_lines, count_skipped, doctest_errors
from tools import CORES, ROOT, call_all, tail

# Folders below tests/ whose .cpp files are not part of a test program.
OTHER_FOLDERS = ("support", "hygiene", "packaging", "fuzz", "golden", "tt", "exploits")
# Tests that need a GPU. The builds of the suite have the emulator or no device, so these tests are skipped.
NEED_A_GPU = ("test_tinymlperf_device_exploits",)


def is_match(test):
    """Returns True if the test runs real matches between submissions. They take minutes, so the stage `matches` runs all of them, and the
    first ring a sample."""
    return test.name.startswith("test_tinymlperf_")


def on_emulator(test):
    return "cuda" in test.name


def test_files():
    files = {p.relative_to(ROOT / "tests").as_posix() for p in (ROOT / "tests").rglob("*.cpp")}
    return {f for f in files if f.split("/")[0] not in OTHER_FOLDERS}


def built_tests(tally, build, env, *targets):
    """Builds the targets and checks that the compiler prints no warning. Returns the tests (tools.Test) whose program exists."""
    built = build.make(*(targets or ["all_tests"]), env=env)
    tally.check(built, f"build in {build.folder.relative_to(ROOT)}", build.first_errors() if not built else "")
    if not (build.folder / "CMakeCache.txt").exists():
        return []
    warnings = build.warnings()
    tally.check(not warnings, "the compiler prints no warning", tail("\n".join(warnings[:10])))
    tests = build.tests()
    of_tests = {source for t in tests for source in t.labels}
    tally.check(of_tests and of_tests == test_files(), "every test file is part of a test",
                "    " + ", ".join(sorted(of_tests ^ test_files())))
    for program in sorted({t.command[0] for t in tests if not Path(t.command[0]).exists()}):
        if not targets or Path(program).name in targets:
            tally.check(False, Path(program).name, "    the program was not built")
    return [t for t in tests if Path(t.command[0]).exists()]


def run_all(tally, tests, env, seconds, device=False, device_seconds=None):
    """Runs tests in parallel. Tests that measure time (RUN_SERIAL in tests/CMakeLists.txt) run afterwards, one at a time, and a
    second time if they fail. A test on the emulator uses one core, and starts no case after `device_seconds`."""
    on_device = [t for t in tests if device and on_emulator(t)]
    measuring = [t for t in tests if t.serial]
    run_tests(tally, [t for t in tests if t not in on_device + measuring], CORES, env, seconds, device)
    if on_device:
        budget = {"TINYTORCH_TEST_SECONDS": str(device_seconds)} if device_seconds else {}
        run_tests(tally, on_device, CORES, dict(env, OMP_NUM_THREADS="1", **budget), seconds, device)
    failed = run_tests(tally, measuring, 1, env, seconds, device, count_failures=False) if measuring else []
    if failed:
        tally.console.say("  second run of: " + ", ".join(t.name for t in failed))
        run_tests(tally, failed, 1, env, seconds, device)


def run_tests(tally, tests, jobs, env, seconds, device, count_failures=True):
    """Runs tests and counts their cases. Returns the tests that failed; these are not counted if `count_failures` is False."""
    slow, reasons, bad, left_out = [], [], [], Counter()
    if data_folder() is None:
        reasons.append("real data is not installed (README: Data)")
    if not device:
        reasons.append("this build has no device cuda (the build `sim` has the emulator)")
    if "TINYTORCH_TEST_FEW" in env:
        reasons.append("they run in the second ring (modules/tt test --only emulator, matches or optimized)")
    commands = [["env", *(f"{k}={v}" for k, v in t.environment.items()), *t.command] for t in tests]
    for i, done in call_all(commands, jobs, seconds, env):
        name = tests[i].name
        own = ["they need a GPU, not the emulator"] if name in NEED_A_GPU else reasons
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
    """Every test file once, by g++. Tests on the emulator, tests of matches and the longest tests of the CPU run a random sample of
    their cases."""
    draw = random.Random(commit())
    few = {"TINYTORCH_TEST_FEW": "1", "TINYTORCH_TEST_DRAW": str(draw.randrange(2**31))}
    env = cached_environment(TINYMLPERF_REAL_TIME="0", **few)
    for build in (OPTIMIZED, CLANG):  # builds of the second ring: configuring them finds their errors within seconds
        tally.check(build.configure(env), f"cmake -B {build.folder.relative_to(ROOT)}", tail(build.log))
    SIM.configure(env)
    programs = sorted({Path(t.command[0]).name for t in SIM.tests()})
    vectors = [p for p in programs if p.startswith("test_vectors")]  # for other instruction sets; each is a test of that name
    tally.skip(len(vectors), "tests of vectors for other instruction sets", "modules/tt test --only optimized")
    tests = built_tests(tally, SIM, env, *(p for p in programs if p not in vectors))
    # Kernels have their own tests. Of the tests that call kernels through tensors, a random quarter runs on the emulator as well.
    through_tensors = sorted(t.name for t in tests if t.name.endswith("_cuda"))
    left = draw.sample(through_tensors, len(through_tensors) * 3 // 4)
    left_out = {*left, *vectors}
    tally.skip(len(left), "tests of tensors on the emulator", "this commit chose others at random (modules/tt test --only emulator)")
    in_full = [kind for kind, stage in ((on_emulator, "emulator"), (is_match, "matches")) if stage in tally.planned]
    run_all(tally, [t for t in tests if t.name not in left_out and not any(kind(t) for kind in in_full)], env, 300, device=True,
            device_seconds=1)


def run_kind(tally, build, env, kind, device=False):
    """Runs all cases of the tests for which `kind` is true, and builds only their programs."""
    build.configure(env)
    programs = sorted({Path(t.command[0]).name for t in build.tests() if kind(t)})
    if tally.check(programs, f"there are tests for this stage in {build.folder.relative_to(ROOT)}", build.first_errors()):
        run_all(tally, [t for t in built_tests(tally, build, env, *programs) if kind(t)], env, 900, device)


def stage_emulator(tally):
    """All cases of the tests that run on the emulator."""
    run_kind(tally, SIM, cached_environment(), on_emulator, device=True)


def stage_matches(tally):
    """Every exploit of the judge, every student header and every command of the judge, in real matches."""
    run_kind(tally, SIM, cached_environment(), is_match, device=True)


def stage_optimized(tally):
    """Every test with the library as users build it: -O3, without a device."""
    env = cached_environment()
    tests = [t for t in built_tests(tally, OPTIMIZED, env) if not is_match(t)]
    run_all(tally, tests, env, 600)


# Groups of tests that run under clang++ and the sanitizers; each is a stage.
CLANG_PARTS = {"core": ("core", "backend", "io", "vectors", "data"), "tensor": ("tensor", "autograd", "tinytorch"),
               "layers": ("layers", "kv_cache", "transformer", "quantization", "acceleration", "pruning", "serving",
               "vision"), "judge": ("tinymlperf", "benchmarking", "profiling")}


def stage_clang(part):
    def run(tally):
        env = cached_environment(OMP_NUM_THREADS="2", TINYMLPERF_REAL_TIME="0")
        wanted = re.compile(rf"test_({'|'.join(CLANG_PARTS[part])})(_|$)")
        run_kind(tally, CLANG, env, lambda t: wanted.match(t.name))
    run.__doc__ = f"Tests of {', '.join(CLANG_PARTS[part])} by clang++, under the address and undefined-behaviour sanitizers."
    return run


def stage_fuzz(tally):
    """Every fuzzer runs for 10 seconds, starting from its corpus."""
    built = CLANG.make("all_fuzzers", env=cached_environment())
    if not tally.check(built, "build of the fuzzers", CLANG.first_errors()):
        return
    runner = ROOT / "tests" / "fuzz" / "run.py"
    names = sorted(p.stem[len("fuzz_"):] for p in runner.parent.glob("fuzz_*.cpp"))
    tally.check(names, "there are fuzzers", "    no tests/fuzz/fuzz_*.cpp")
    kept = CLANG.folder / "fuzz"  # keeps inputs that fail
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
            tally.skip(1, name, "nvcc is not installed (include/tinytorch/backend/cuda/README.md)")
            return
        good = build.make("tinytorch_cuda", "device_submissions", env=cached_environment())
        warnings = build.warnings()
        tally.check(good and not warnings, name, tail("\n".join(warnings[:10])) if good else build.first_errors())
    run.__doc__ = f"All kernels and all device submissions are compiled by nvcc for sm_{architecture}."
    return run
