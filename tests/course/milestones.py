"""Tests of the milestones: each passes with the library within seconds, and a fault in a header fails the gate that tests it.
Prints `ok - ` or `not ok - ` lines; exits with 1 if a check fails.

  python3 tests/course/milestones.py [--only xor]

The build is in $TINYTORCH_SIM_BUILD, or in build/sim, because milestone `kernels` needs the emulator. A fault is an edit of a
copy of one header. The functions of that header are compiled again, at -O1, and linked before the library's own.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "modules"), str(ROOT / "tests"), str(ROOT / "tests" / "course")]
import course
import lessons
import tools
from run import headers
from suite.builds import SIM

INCLUDE = ROOT / "include"
FOLDER = Path(os.environ.get("TINYTORCH_SIM_BUILD", ROOT / "build" / "sim"))
MILESTONES = {m["name"]: m for m in json.loads((ROOT / "modules" / "course.json").read_text())["milestones"]}
SECONDS = 120  # limit of a run; with the library a run takes at most 3 seconds, with the solutions up to 15
LIBRARIES = ["-lboost_context", "-ldl", "-lfmt", "-lz", "-lzip"]

# (milestone, name of the fault, text of one header, text that replaces it, gates that must fail)
FAULTS = [
    ("perceptron", "a sum drops the tail", "for (; i < n; ++i) tail = F::join(tail, x[i]);",
     "for (; i + 1 < n; ++i) tail = F::join(tail, x[i]);", ["w equals the reference in double"]),
    ("xor", "the gradient does not reach the bias", "add(const BinaryContext& c) { return {c.g, c.g}; }",
     "add(const BinaryContext& c) { return {c.g, zeros_like(c.g)}; }",
     ["every parameter has a gradient", "a step of the network equals the chain rule in double"]),
    ("xor", "the derivative of tanh is the sigmoid's", "derivative_times(backend::BinaryFn::tanh_grad, c.g, c.y)",
     "derivative_times(backend::BinaryFn::sigmoid_grad, c.g, c.y)",
     ["a step of the network equals the chain rule in double"]),
    ("mlp", "the optimizer does not change parameters", "p[i] -= lr * (own * gradient + past * velocity[i]);",
     "p[i] -= T(0) * lr * (own * gradient + past * velocity[i]);",
     ["steps with momentum equal the reference in double", "every parameter changed", "the test accuracy is at least 5 of 6"]),
    ("mlp", "momentum drops the last velocity", "velocity[i] = momentum * velocity[i] + gradient;", "velocity[i] = gradient;",
     ["steps with momentum equal the reference in double"]),
    ("mlp", "the gradient does not reach the bias", "return {dx, of_both[0], of_both[1]};",
     "return {dx, of_both[0], zeros_like(of_both[1])};", ["every parameter has a gradient", "every parameter changed"]),
    ("convnet", "the kernel depends on the position", "to[j] = sums[j] + b;", "to[j] = sums[j] + b + T(0.01) * T(i + j);",
     ["a convolution equals its definition in double", "a shifted digit has shifted features"]),
    ("convnet", "AdamW adds the decay to the gradient like Adam", ": Adam(parameters, adam_options, true, loc) {}",
     ": Adam(parameters, adam_options, false, loc) {}", ["steps of AdamW equal the reference in double"]),
    ("gpt", "attention is not causal", ".causal = options.causal, .window = options.window",
     ".causal = false, .window = options.window", ["the future does not leak: earlier logits stay bit-equal"]),
    ("gpt", "attention has a window of four positions", ".causal = options.causal, .window = options.window",
     ".causal = options.causal, .window = 4", ["the loss is within 10 % of the entropy", "the verb after a plural noun is `sleep`"]),
    ("compiler", "no two steps are merged", "if (reason.empty() && bytes > std::max(budget(), current_)) {", "if (bytes > 0) {",
     ["kernels are at most 0.6 of the eager ones"]),
    ("compiler", "no memory is used twice", "if (blocks[k].last < block.first || block.last < blocks[k].first) continue;",
     "if (blocks[k].bytes == 0) continue;", ["the planned memory is at most 0.85 of the eager peak"]),
    ("four_bits", "a matrix has one scale", "if (rounding == Rounding::gptq) return gptq_pack(weight, *inputs, format, damping, loc).to(device, loc);",
     "const Tensor one = max(abs(weight)) / 7.0; if (rounding == Rounding::gptq) return quantize(round(weight / one) * one, format, loc).to(device, loc);",
     ["the loss is at most 1 % above that of f32", "the divergence is at most 2/3 of that of rounding to nearest"]),
    ("four_bits", "weights are rounded to nearest", "if (rounding == Rounding::gptq) return gptq_pack(weight, *inputs, format, damping, loc).to(device, loc);",
     "if (rounding == Rounding::gptq) return quantize(weight, format, loc).to(device, loc);", ["the divergence is at most 2/3 of that of rounding to nearest"]),
    ("four_bits", "the float weights are kept beside the packed ones",
     "auto packed = std::make_shared<QuantizedLinear>(weight, layer.bias, activations, before);",
     "static std::vector<Tensor> kept; kept.push_back(layer.weight); "
     "auto packed = std::make_shared<QuantizedLinear>(weight, layer.bias, activations, before);", ["the float weights are freed"]),
    ("four_bits", "scales are not counted", "bits += 8.0 * static_cast<double>(l.bytes), numbers +=",
     "bits += 4.0 * static_cast<double>(l.shape.numel()), numbers +=", ["the report counts the bits that are stored"]),
    ("four_bits", "weights become floats in memory for each token", "(coded ? format.product_int8 : format.product)(o);",
     "std::vector<float> w(static_cast<size_t>(N * K)); "
     "for (int64_t n = 0; n < N; ++n) format.unpack(o.weight + n * o.row_bytes, o.blocks, w.data() + n * K); "
     "for (int64_t m = 0; m < M; ++m) for (int64_t n = 0; n < N; ++n) { float sum = 0; "
     "for (int64_t k = 0; k < K; ++k) sum += w[static_cast<size_t>(n * K + k)] * floats.data()[m * K + k]; y.data()[m * N + n] = sum; }",
     ["a token is 2.5 times as fast as in f32"]),
    ("less_is_more", "channels are only masked",
     """    pruning::become(tensors.at(name), pruning::without(tensors.at(name), dims));
  }
  if (!optimizer) return;""",
     """    for (const auto& [dim, gone] : dims) for (const int64_t i : gone) tensors.at(name).slice(dim, i, i + 1).zero_();
  }
  if (!optimizer || optimizer) return;""",
     ["70 % of the parameters are removed", "the file has at most 0.32 of the bytes", "it is at least 1.8 times as fast"]),
    ("less_is_more", "the most important channels go", "[&](size_t a, size_t b) { return importance[a] < importance[b]; });",
     "[&](size_t a, size_t b) { return importance[a] > importance[b]; });",
     ["without the smallest channels more is read than without the largest"]),
    ("less_is_more", "the step revives removed weights", "    optimizer.after_step([entries, state] {", "    if (false) optimizer.after_step([entries, state] {",
     ["nine tenths of the single weights stay 0 through training"]),
    ("serve", "old keys are copied in each step, as by concatenation", "const KvMemory& planes = layers_.at(static_cast<size_t>(layer));",
     "const KvMemory& planes = layers_.at(static_cast<size_t>(layer)); "
     "(void)slice(planes.keys, 2, 0, std::min(step_.longest, planes.keys.size(2))).clone();",
     ["a step allocates as little after 1000 tokens as after 100"]),
    ("serve", "batches are static", "if (options_.batching == Batching::static_batch && !running_.empty() && !fresh_batch()) return;",
     "if (!running_.empty() && !fresh_batch()) return;", ["continuous batching writes 2.5 times as much as static batches"]),
    ("serve", "products take the order that is fastest for a batch", "bool batch_invariant = true;", "bool batch_invariant = false;",
     ["each text has the bits that it has alone"]),
    ("kernels", "the fused step does not square the gradient", "v = beta2 * v + rest2 * gradient * gradient;",
     "v = beta2 * v + rest2 * gradient;", ["the steps equal the CPU's", "steps of AdamW equal the reference in double"]),
    ("kernels", "the gradient of the loss does not depend on the target", "v[k] -= c + k == row.target ? hot : A(0);",
     "v[k] -= c + k == row.target ? hot * A(0) : A(0);", ["the gradients equal the CPU's", "the steps equal the CPU's"]),
]


def call(command, seconds, **more):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=seconds, text=True, errors="replace", **more)


def must(command, seconds=3600):
    done = call(command, seconds)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}\n{done.stdout[-6000:]}")


def build():
    """Builds all milestones in FOLDER. Returns {name of a source without suffix: the command that compiles it}."""
    must(["cmake", "-S", ROOT, "-B", FOLDER, *SIM.flags, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"])
    must(["cmake", "--build", FOLDER, "-j", tools.CORES, "--target", "all_milestones"])
    entries = json.loads((FOLDER / "compile_commands.json").read_text())
    return {Path(e["file"]).stem: shlex.split(e["command"]) for e in entries
            if Path(e["file"]).parent in (ROOT / "modules" / "milestones", FOLDER / "generated")}


class Run:
    """A run of a milestone; `gates` is {gate: "", or the reason why it failed}."""

    def __init__(self, program):
        began = time.monotonic()
        done = call([program], SECONDS)
        self.seconds, self.code, self.text = time.monotonic() - began, done.returncode, done.stdout
        self.gates = {}
        for bad, line in re.findall(r"^(not )?ok - (.*)$", self.text, re.M):
            name = next((g for g in MILESTONES[program.name]["gates"] if line == g or bad and line.startswith(g + ": expected ")),
                        line)
            self.gates[name] = line[len(name):] if bad else ""

    @property
    def failed(self):
        return {name for name, why in self.gates.items() if why}


class Milestones(unittest.TestCase):
    longMessage = True

    commands = {}

    def intact(self, name):
        run = Run(FOLDER / "bin" / "milestones" / name)
        self.assertEqual(run.code, 0, run.text)
        self.assertEqual(list(run.gates), MILESTONES[name]["gates"], "course.json names the gates as they are printed")
        self.assertEqual(run.failed, set(), run.text)
        print(f"# {name}: {run.seconds:.1f} s", flush=True)

    def broken(self, name, old, new, gates):
        holders = [p for p in (INCLUDE / "tinytorch").rglob("*.?p*") if old in p.read_text()] + \
                  [p for p in (INCLUDE / "tinytorch").rglob("*.cuh") if old in p.read_text()]
        self.assertEqual(len(holders), 1, f"one header has the text {old!r}; there are {holders}")
        text = holders[0].read_text()
        self.assertEqual(text.count(old), 1, f"{holders[0]} has the text {old!r} once")
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            header = holders[0].relative_to(INCLUDE)
            (folder / "include" / header).parent.mkdir(parents=True)
            (folder / "include" / header).write_text(text.replace(old, new))
            run = Run(self.link(name, self.compiled_again(name, header, folder), folder))
        self.assertEqual(run.code, 1, run.text)
        for gate in gates:
            self.assertIn(gate, run.failed, run.text)
        self.assertLessEqual(set(run.gates), {*MILESTONES[name]["gates"], "the program ran without an error"})

    def compiled_again(self, name, header, folder):
        """Compiles the functions of the changed header to an object. The linker takes the first definition of each function, so
        the object is linked before the library."""
        source, guard = folder / "again.cpp", re.search(r"^#if TT_BODIES\((\w+)\)", (INCLUDE / header).read_text(), re.M)
        if "cuda" in header.parts:
            unit = "cuda_bodies"
            source.write_text(f"#include <{header}>\n")
        elif guard:
            unit = f"{guard[1].lower()}_bodies"
            source.write_text(f"#define TINYTORCH_IMPLEMENT_{guard[1]} 1\n#include <{header}>\n")
        else:  # the program of the milestone includes the header
            unit, source = name, None
        command = list(self.commands[unit])
        command[command.index("-o") + 1] = str(folder / f"{unit}.o")
        if source:
            command[command.index("-c") + 1] = str(source)
        compiler = next(i for i, word in enumerate(command) if word.startswith("-"))
        must([*command[:compiler], f"-I{folder / 'include'}", *command[compiler:], "-O1", "-w"], 600)
        return folder / f"{unit}.o"

    def link(self, name, again, folder):
        own = FOLDER / "modules" / "milestones" / "CMakeFiles" / f"milestone_{name}.dir" / f"{name}.cpp.o"
        objects = [again] if again.stem == name else [own, again]
        program = folder / name
        must([self.commands[name][0], "-fopenmp", "-pthread", "-Wl,-z,muldefs", "-o", program, *objects,
              FOLDER / "libtinytorch.a", FOLDER / "libtinytorch_cuda.a", *LIBRARIES], 300)
        return program

    def test_each_milestone_passes_with_the_solutions(self):
        """The library and the milestones of the CPU are built with the solutions of all modules, as `modules/tt milestone` builds
        them. (Not on the emulator, where all kernels take minutes to compile; only the checks of tasks run there.)"""
        with tempfile.TemporaryDirectory() as folder:
            root = lessons.clone(Path(folder))
            modules = [m for m in course.Course().modules if m.tasks]
            for module in modules:
                headers(root / "modules" / module.id / "student", module, {})
            build = root / "build" / "student"
            must(["cmake", "-S", root, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTINYTORCH_FUZZ=OFF",
                  "-DTINYTORCH_STUDENT=" + ";".join(m.id for m in modules)])
            names = [n for n, m in MILESTONES.items() if m.get("device") != "cuda"]
            must(["cmake", "--build", build, "-j", tools.CORES, "--target", "tinymlperf", *(f"milestone_{n}" for n in names)])
            self.refuses_to_judge(build / "bin" / "tinymlperf", modules)
            for name in names:
                run = Run(build / "bin" / "milestones" / name)
                self.assertEqual((run.code, run.failed), (0, set()), f"{name}\n{run.text}")
                print(f"# {name} with the solutions: {run.seconds:.1f} s", flush=True)

    def refuses_to_judge(self, program, modules):
        """A tinymlperf that is built with student headers names these headers and verifies results, but refuses to judge matches,
        because student code would measure the times."""
        told = tools.call([program, "worker", "--headers"], 60)
        names = {t.header for m in modules for t in m.tasks if t.header.endswith(".hpp")}
        self.assertEqual((told.code, set(told.text.split())), (0, names))
        for verb in (["race"], ["run", "A"], ["work", "--board", "b.db"]):
            refused = tools.call([program, *verb], 60)
            self.assertEqual(refused.code, 2, refused.text)
            self.assertIn("judges nobody", refused.text)
        self.assertIn("none.json", tools.call([program, "verify", "none.json"], 60).text)

    def test_course_json_names_every_milestone(self):
        sources = {p.stem for p in (ROOT / "modules" / "milestones").glob("*.cpp")}
        self.assertEqual(sources, set(MILESTONES))

    def test_each_milestone_is_tested_with_a_fault(self):
        self.assertEqual({b[0] for b in FAULTS}, set(MILESTONES))

    def test_gates_fail_for_values_that_are_nan(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "gates.cpp", Path(folder) / "gates"
            source.write_text('''#include <milestones/gates.hpp>
int main() {
  return milestone::run([](milestone::Gates& gates) {
    gates.at_most("at most", NAN, 1);
    gates.at_least("at least", NAN, 1);
    gates.at_most("larger", milestone::larger(milestone::larger(0, NAN), 1), 2);
    tinytorch::NamedTensors two = {{"a", tinytorch::ones({2})}, {"b", tinytorch::ones({2})}};
    const auto before = milestone::values_of(two);
    two[0].tensor.fill_(NAN);
    two[1].tensor.fill_(9);
    gates.parameters_moved(two, before, 0.1);
    two[0].tensor.fill_(9);
    gates.parameters_moved(two, before, 0.1);
    gates.gradients_arrived(two);
    tinytorch::matmul(two[0].tensor, tinytorch::ones({3}));
  });
}
''')
            must(["g++", "-std=c++20", "-O0", "-I", INCLUDE, "-I", ROOT / "modules", source, "-o", program], 600)
            done = call([program], 60)
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line.split(":")[0] for line in done.stdout.splitlines() if "ok - " in line],
                         ["not ok - at most", "not ok - at least", "not ok - larger", "not ok - every parameter moved",
                          "ok - every parameter moved", "not ok - a gradient arrived in every parameter",
                          "not ok - it ran to its end"], done.stdout)


def add_tests():
    for name in MILESTONES:
        setattr(Milestones, f"test_{name}", lambda self, name=name: self.intact(name))
    for name, what, old, new, gates in FAULTS:
        title = f"test_{name}_fails_if_" + re.sub(r"\W+", "_", what)
        assert not hasattr(Milestones, title), title
        setattr(Milestones, title, lambda self, a=(name, old, new, gates): self.broken(*a))


add_tests()

def failure(test):
    """The traceback of a failed test, or ""."""
    try:
        Milestones(test).debug()
    except Exception:
        return traceback.format_exc()
    return ""


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="only tests whose name contains this text")
    only = options.parse_args().only
    names = [n for n in unittest.defaultTestLoader.getTestCaseNames(Milestones) if only in n]
    names.sort(key=lambda n: "with_the_solutions" not in n)  # the longest test first
    if not names:
        lessons.report("there are milestones", False, f"no test has {only!r} in its name")
        return 1
    Milestones.commands = build()
    with ThreadPoolExecutor(max_workers=tools.CORES) as pool:
        jobs = [(n, pool.submit(failure, n)) for n in names]
        for name, job in jobs:
            why = job.result()
            lessons.report(name[len("test_"):].replace("_", " "), not why, why)
    return 1 if lessons.failed else 0


if __name__ == "__main__":
    sys.exit(main())
