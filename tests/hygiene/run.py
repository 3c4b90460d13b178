"""Runs all hygiene checks. Prints `ok - name`, or `not ok - name` with the reasons below; exits with 1 if a check fails.

  python3 tests/hygiene/run.py [--only WORD...]
"""
import argparse
import os
import random
import shutil
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import canary
import compilers
import lints
import self_test

failed = 0


def report(name, good, why="", lines=60):
    global failed
    failed += 0 if good else 1
    print(("ok - " if good else "not ok - ") + name)
    if not good:
        print("\n".join("  " + line for line in str(why).strip().splitlines()[:lines]))
    sys.stdout.flush()


def self_tests():
    for suite in unittest.defaultTestLoader.loadTestsFromModule(self_test):
        for case in suite:
            result = unittest.TestResult()
            case.run(result)
            report(f"self-test: {case._testMethodName}", result.wasSuccessful() and result.testsRun == 1,
                   "".join(text for _, text in result.failures + result.errors))


def host_only(tree, path):
    """Returns True if nvcc cannot compile this header: fmt 9 does not compile in a .cu file with C++20, Eigen 3.4 gives warnings
    there, and the emulator defines the words of CUDA."""
    reached = [file.read_text() for file in lints.reached([path], (tree.include,))]
    uses_either = any("#include <fmt/" in text or "#include <Eigen/" in text for text in reached)
    return uses_either or path.parent.name == "sim"


MOST_CHANGED = 80


def headers_alone(tree, pool, draw):
    """Each host header compiles alone with g++; with `draw`, a random eighth of them, and at most 80 that changed within a day."""
    headers = [path.relative_to(tree.include) for path in tree.headers() if path.suffix == ".hpp"]
    if draw:
        # Commits that change more headers than this are those of names or comments.
        changed = [path.relative_to("include") for path in tree.changed("include", hours=24)]
        changed = [path for path in changed if path in headers][:MOST_CHANGED]
        headers = list(dict.fromkeys(random.Random(draw).sample(headers, len(headers) // 8) + changed))
    return [(f"alone: {Path(*header.parts[1:])}", pool.submit(compilers.header_alone, tree, header)) for header in headers]


def headers_by_nvcc(tree, pool):
    """Each header of kernels compiles alone with nvcc, and all host headers compile with nvcc in one file."""
    if compilers.cuda_compiler() is None:
        print("skipped - headers by nvcc: nvcc is not on the PATH (include/tinytorch/backend/cuda/README.md)")
        return []
    kernels = [path.relative_to(tree.include) for path in tree.headers() if path.suffix == ".cuh"]
    jobs = [(f"alone: {Path(*header.parts[1:])}", pool.submit(compilers.header_alone, tree, header)) for header in kernels]
    hosts = [path.relative_to(tree.include) for path in tree.headers() if path.suffix == ".hpp" and not host_only(tree, path)]
    jobs.append(("nvcc: all host headers in one file", pool.submit(compilers.with_nvcc, tree, hosts)))
    return jobs


def kernels_by_clang(tree, pool):
    """clang++ compiles the kernels for the emulator. (The stage `tests` uses g++.)"""
    return [("clang++: all kernels, for the emulator", pool.submit(compilers.kernels_for_emulator, tree))]


def headers_by_clang(tree, pool):
    """clang++ compiles all headers in one file. The first ring has it, too: it is quick, and users compile with clang++."""
    if shutil.which("clang++") is None:
        print("skipped - headers by clang++: clang++ is not on the PATH (apt install clang)")
        return []
    return [("clang++: all headers in one file", pool.submit(compilers.headers_together, tree, host_headers(tree), "clang++"))]


def host_headers(tree):
    return [path.relative_to(tree.include) for path in tree.headers()
            if path.suffix == ".hpp" and path.parent.name != "sim"]  # the emulator defines the words of CUDA


def student_headers(tree, pool):
    """Every header outside core/ can be replaced, and a header that includes it reads the replacement. The CPU kernels compile
    with the course's solutions, each alone and all together. The gradient of attention is replaced together with its forward
    pass, because it uses parts of it."""
    solutions = sorted(tree.root.glob("modules/*/frame/tinytorch/backend/cpu/*.hpp"))
    attention = [path for path in solutions if path.name.startswith("attention")]
    jobs = [(f"kernels with a solution's {' and '.join(path.name for path in paths)}",
             pool.submit(compilers.kernels_with_solutions, tree, paths))
            for paths in [attention, *([path] for path in solutions if path not in attention)]]
    jobs.append(("kernels with all solutions", pool.submit(compilers.kernels_with_solutions, tree, solutions)))
    for path in tree.headers():
        header = path.relative_to(tree.include)
        if path.suffix == ".hpp" and header.parts[1] != "core" and len(header.parts) > 2:
            users = sorted(str(p.relative_to(tree.include)) for p in tree.headers()
                           if f"<{header}>" in p.read_text() and p.suffix == ".hpp")
            jobs.append((f"student header: {header}", pool.submit(
                compilers.student_header_is_seen, tree, header, users[0] if users else str(header))))
    return jobs


def canaries(tree, verdicts):
    """A change in the header of an op family changes the result of a program (canary.py)."""
    complaints = canary.coverage(tree.include)
    report("every op family has a canary", not complaints, "\n".join(complaints))
    for name, problem in verdicts.items():
        report(f"canary {name}", problem is None, problem, lines=None)


def include_budgets(tree):
    """Measures one include at a time, so that other work on the processor has little influence. modules/tt prints the lines that
    begin with `# include`, and fails if there are none."""
    narrow = dict.fromkeys(compilers.NARROW, compilers.NARROW_SECONDS)
    measured = [("include", name, f"tinytorch/{name}", budget, ())
                for name, budget in {**narrow, **compilers.UMBRELLA_SECONDS}.items()]
    measured += [("program", f"{compilers.PROGRAM}, {kind}", tree.root / compilers.PROGRAM, budget, ("-O2", "-fopenmp", *flags))
                 for kind, (flags, budget) in compilers.PROGRAM_SECONDS.items()]
    for kind, name, file, budget, flags in measured:
        seconds = compilers.include_seconds(tree, file, budget, flags=flags)
        print(f"# {kind} {name}: {seconds:.2f} s of processor time (budget {budget:.1f} s)")
        report(f"{kind} time: {name}", seconds <= budget * compilers.NOISE_FACTOR,
               f"{seconds:.2f} s; the budget is {budget} s, and noise may add a factor of {compilers.NOISE_FACTOR}")


def links(tree, pool):
    jobs = [("two files link, header-only", pool.submit(
                compilers.two_files_link, tree, "tinytorch/tinytorch.hpp",
                "tinytorch::matmul(tinytorch::ones({2, 3}), tinytorch::ones({3, 2})).sum().item<float>()")),
            ("g++: all headers in one file", pool.submit(compilers.headers_together, tree, host_headers(tree), "g++")),
            ("objects with and without CUDA do not link", pool.submit(compilers.cuda_answers_do_not_mix, tree))]
    return jobs


def benches(tree, pool):
    return [(f"benchmark compiles: {path.stem}", pool.submit(compilers.bench_compiles, tree, path))
            for path in sorted((tree.root / "bench").glob("bench_*.cpp"))]


def must_not_compile(tree, pool):
    cases = sorted((Path(__file__).parent / "must_not_compile").glob("*.cpp"))
    report("there are must-not-compile cases", bool(cases))
    return [(f"must not compile: {path.stem}", pool.submit(compilers.must_not_compile, tree, path)) for path in cases]


# Checks that start compilers: they return [(name, job)]. The others run in Python. `time` runs after all others, so that no other
# check runs while it measures.
COMPILING = {"link": links, "must": must_not_compile, "alone": headers_alone, "nvcc": headers_by_nvcc,
             "clang": kernels_by_clang, "clang-headers": headers_by_clang, "student": student_headers, "bench": benches}
CHECKS = ("self", "lint", *COMPILING, "canary", "time")


def lint(tree):
    for one in lints.LINTS:
        complaints = one(tree)
        report(one.__doc__.strip().splitlines()[0].rstrip("."), not complaints, "\n".join(complaints))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="+", choices=CHECKS, default=list(CHECKS))
    options.add_argument("--draw", metavar="WORD", help="`alone`: an eighth of the headers, chosen at random with this word as the seed, and those\n"
                         "that the last commit changed")
    options = options.parse_args()
    tree = lints.Tree(Path(__file__).resolve().parents[2])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    pool = ThreadPoolExecutor(max_workers=cores)
    # All compilations are queued first, the longest one at the head; the checks in Python run beside them.
    verdicts = pool.submit(canary.verdicts, os.environ.get("CXX", "g++")) if "canary" in options.only else None
    jobs = [job for name, check in COMPILING.items() if name in options.only
            for job in check(tree, pool, *([options.draw] if check is headers_alone else []))]
    if "self" in options.only:
        self_tests()
    if "lint" in options.only:
        lint(tree)
    for name, job in jobs:
        report(name, *job.result())
    if verdicts:
        canaries(tree, verdicts.result())
    if "time" in options.only:
        include_budgets(tree)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
