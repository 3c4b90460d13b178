"""Runs the fuzz targets one after the other on their corpora, and counts executions.

  cmake -B build-fuzz -DCMAKE_CXX_COMPILER=clang++ -DTINYTORCH_FUZZ=ON && cmake --build build-fuzz --target all_fuzzers
  python3 tests/fuzz/run.py build-fuzz/bin/fuzz --seconds 15            every target, 15 seconds each
  python3 tests/fuzz/run.py build-fuzz/bin/fuzz --runs 10000000 npy     one target, by executions
  python3 tests/fuzz/run.py build-fuzz/bin/fuzz --keep FOLDER --merge   add the inputs in FOLDER to the corpora

Prints `ok - name` or `not ok - name` with the end of the fuzzer's log. The exit code is 1 if a target fails or is
missing. Inputs that fail are written to the folder named by --keep, or to the working folder without --keep.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Maximal length of an input: long enough for every part of the format, short enough for many executions per second.
MAX_LENGTH = {"bpe": 300, "bundle": 4096, "cifar10": 3200, "entry": 800, "frame": 300, "gguf": 1200, "gzip": 200, "hugging_face": 600, "idx": 128, "import": 6000, "json": 96, "npy": 300,
              "npz": 500, "plan": 700, "safetensors": 400, "text": 64, "tokenizer_json": 200}
# The sanitizer's bookkeeping of exceptions and allocations takes most of the time of a short execution. These options
# reduce it, and disable no check.
SANITIZER = "malloc_context_size=0:quarantine_size_mb=16:use_sigaltstack=0:max_malloc_fill_size=0"


def targets():
    return sorted(p.stem.removeprefix("fuzz_") for p in HERE.glob("fuzz_*.cpp"))


def command(options, name, found):
    limit = [f"-runs={options.runs}"] if options.runs else [f"-max_total_time={options.seconds}"]
    return [str(Path(options.bin) / f"fuzz_{name}"), *limit, f"-max_len={MAX_LENGTH.get(name, 4096)}", "-entropic=0",
            "-rss_limit_mb=1024", "-malloc_limit_mb=256", "-timeout=10", "-print_final_stats=1",
            f"-artifact_prefix={Path(options.keep or '.')}/{name}-", str(found), str(HERE / "corpus" / f"fuzz_{name}")]


def run(options, name):
    with tempfile.TemporaryDirectory() as temporary:
        found = Path(options.keep) / name if options.keep else Path(temporary)
        found.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command(options, name, found), capture_output=True, text=True, errors="replace",
                              env=os.environ | {"ASAN_OPTIONS": SANITIZER})
    executed = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    if done.returncode == 0 and executed:
        print(f"ok - fuzz {name}: {executed[1]} executions", flush=True)
        return True
    print(f"not ok - fuzz {name}: exit code {done.returncode}\n  " + "\n  ".join(done.stderr.splitlines()[-40:]),
          flush=True)
    return False


def merge(options, name):
    """Adds the new inputs that reach code which no input of the corpus reaches. Loop counts are ignored."""
    done = subprocess.run([str(Path(options.bin) / f"fuzz_{name}"), "-merge=1", "-use_counters=0",
                           str(HERE / "corpus" / f"fuzz_{name}"), str(Path(options.keep) / name)], capture_output=True, text=True,
                          errors="replace")
    print(f"{'ok' if done.returncode == 0 else 'not ok'} - merge {name}", flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="folder of the built fuzz targets")
    parser.add_argument("names", nargs="*", help="names of targets (default: all)")
    parser.add_argument("--seconds", type=int, default=15, help="duration of each target (default: 15)")
    parser.add_argument("--runs", type=int, help="number of executions of each target, instead of a duration")
    parser.add_argument("--keep", help="folder for new inputs (default: they are deleted)")
    parser.add_argument("--merge", action="store_true",
                        help="run no target, but add the inputs in the folder of --keep to the corpora")
    options = parser.parse_intermixed_args()
    if options.merge and not options.keep:
        parser.error("--merge needs --keep")
    unknown = set(options.names) - set(targets())
    if unknown:
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}; the targets are {', '.join(targets())}")
    action = merge if options.merge else run
    results = []
    for name in options.names or targets():
        if (Path(options.bin) / f"fuzz_{name}").exists():
            results.append(action(options, name))
        else:
            print(f"not ok - fuzz {name}: {options.bin}/fuzz_{name} is not built")
            results.append(False)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
