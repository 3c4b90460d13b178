"""Stages that run the examples, the commands of README.md and of the judge's manual, and the notebooks, as a user does."""
import random
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import notebook
from suite import checkers
from suite.builds import SIM, cached_environment, commit, data_folder, test_environment
from tools import CORES, GCC, ROOT, Finished, call, call_all, run_race, tail

# Arguments of examples that train a model: a short run, which must reach a loss below the value of --require.
SHORT_RUNS = {
    "gpt_chars": ["--steps", "150", "--features", "64", "--layers", "2", "--context", "64", "--batch", "8", "--require",
                  "2"],
    "gpt2_train": ["--text", ROOT / "bench/README.md", "--vocabulary", ROOT / "tests/golden/transformer/small_gpt2.json",
                   "--layers", "2", "--heads", "2", "--features", "32", "--context", "32", "--steps", "60", "--lr", "1e-2",
                   "--warm-up", "10", "--evaluate-batches", "5", "--require", "5.6"],
}


def check_runs_of(tally, name, program, arguments, cwd):
    """Checks a whole run, and that a run of a few steps in two parts leaves the same checkpoint as one in one part, byte for
    byte. Returns the seconds of all runs."""
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
    tally.check(same, f"examples/{name}.cpp: a resumed run equals an uninterrupted one", "    the two checkpoints differ")
    written = [cwd / "long/loss.svg", cwd / "saved/model.safetensors", cwd / "saved/config.json"]
    missing = [str(path) for path in written if not path.exists()]
    tally.check(not missing, f"examples/{name}.cpp: it writes the loss curve and the model", "    missing: " + ", ".join(missing))
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
        if name == "serve":  # it runs until a signal ends it
            checkers.run_server_test(tally, GCC)
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


README_LINES = 150


def readme_commands(text):
    """The commands in the sh blocks of a README."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line.strip() and not line.startswith("#")]


def in_folder(command, folder):
    """The command with another build folder in place of `build`."""
    return re.sub(r"(?<![\w/.-])build(?=[/\s]|$)", folder, command)


def stage_readme(tally):
    """Every command of README.md and of bench/tinymlperf/README.md is executed, in the build of the stage `tests`; `modules/tt run`
    is one of them."""
    run_readmes(tally, SIM)


def stage_run(tally):
    """The same commands as in the stage `readme`, in the build that a user has."""
    run_readmes(tally, GCC)


def run_readmes(tally, build):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = readme_commands(text)
    manual = ROOT / "bench" / "tinymlperf" / "README.md"
    of_manual = readme_commands(manual.read_text(encoding="utf-8"))
    tally.check(of_manual, "bench/tinymlperf/README.md has commands")
    lines = text.count("\n")
    tally.check(lines <= README_LINES, f"README.md has at most {README_LINES} lines", f"    it has {lines}")
    for command in ("modules/tt run", "modules/tt test"):
        tally.check(command in commands, f"README.md names `{command}`")
    example = re.findall(r"^```cpp\n(.*?)^```", text, re.M | re.S)
    hello = ROOT / "examples" / "hello.cpp"
    same = bool(example) and hello.exists() and example[0] == hello.read_text(encoding="utf-8")
    tally.check(same, "the README's example is examples/hello.cpp", "    the two differ")
    env = cached_environment()

    # Workers of the manual's board play the shortest matches, which rank nothing.
    env["TINYMLPERF_CLASS"] = "smoke"
    env["TT_BUILD"] = build.name  # `modules/tt run` builds there
    folder = str(build.folder.relative_to(ROOT))

    def run(command):
        return call(["bash", "-euo", "pipefail", "-c", in_folder(command, folder)], 900, env=env)

    # The command that calls a compiler runs while two targets are built that other commands need.
    compiled = next((c for c in commands if c.startswith("g++ ")), None)
    with ThreadPoolExecutor() as pool:
        beside = pool.submit(run, compiled) if compiled else None
        build.make("tinymlperf", "example_hello", env=env)
    for page, command in [("README.md", c) for c in commands] + [(str(manual.relative_to(ROOT)), c) for c in of_manual]:
        if command.startswith("modules/tt test"):
            continue  # this stage is part of that command
        done = beside.result() if command == compiled else run(command)
        tally.check(done.code == 0, f"{page}: {command}", tail(done.text))
        tally.ran(command, done)
        tally.console.say(f"  {command}: {done.seconds:.0f} s")


def run_notebooks(tally, notebooks):
    races = [build.folder / "race" / "race.json" for build in (GCC, SIM)]
    if not any(race.exists() for race in races) and not tally.check(run_race(tally.console)[0] == 0,
                                                                    "a race, whose results a notebook plots"):
        return
    why = notebook.packages()
    if not tally.check(not why, "nbconvert and matplotlib from PyPI", why):
        return
    race = next(race for race in races if race.exists())
    env = {**notebook.environment(cached_environment()), "TINYTORCH_RACE": str(race), "MPLBACKEND": "agg"}
    done = call([notebook.PYTHON, "-c", notebook.LIBRARY], 900, cwd=ROOT / "notebooks", env=env)
    tally.check(done.code == 0, "the libraries that all notebooks link", tail(done.text))
    tally.console.say(f"  the libraries that all notebooks link: {done.seconds:.1f} s")
    execute_notebooks(tally, notebooks, notebook.PAGES, env)


def all_notebooks():
    return sorted(notebook.all_notebooks(), key=lambda path: path.stem != "05_profiling")  # the longest first


def stage_notebook(tally):
    """One notebook, which the commit chooses at random, is executed."""
    notebooks = [n for n in all_notebooks() if n.stem != "05_profiling"]  # 05_profiling takes minutes
    if tally.check(notebooks, "there are notebooks", "    no notebooks/*.ipynb"):
        run_notebooks(tally, [random.Random(commit()).choice(notebooks)])


def stage_notebooks(tally):
    """Every notebook is executed."""
    if tally.check(all_notebooks(), "there are notebooks", "    no notebooks/*.ipynb"):
        run_notebooks(tally, all_notebooks())


def execute_notebooks(tally, notebooks, out, env):
    """One check for each notebook. An error in a cell ends the notebook with an exit code that is not 0."""
    commands = [notebook.executes(path, "html", out) for path in notebooks]
    for i, done in call_all(commands, CORES, 600, env):
        name = f"notebooks/{notebooks[i].name}"
        tally.check(done.code == 0, name, notebook.why_failed(done))
        tally.ran(name, done)
        tally.console.say(f"  {name}: {done.seconds:.1f} s")
