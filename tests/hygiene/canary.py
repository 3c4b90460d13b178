#!/usr/bin/env python3
"""Replacing an op-family header takes effect: a student's header put before include/ changes the result.

For each header a copy with one visible change (a sign, an offset) is written to a folder that comes first on the
include path. A small header-only program is compiled with and without it. The canary lives when the result without
is right and the result with is different. One program
holds the statements of all; its first argument count picks them.

usage: canary.py [--compiler g++] [--jobs 2] [header ...]
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"

VECTOR = "tt::Tensor x = tt::from_data({1.0f, 2.0f, 4.0f, 3.0f}, {2, 2});"
GRADIENT = VECTOR + " x.requires_grad_(); "

# header: (text in it, its replacement, statements that print a result, the right result)
CANARIES = {
    "backend/functors.hpp": (r"if constexpr \(fn == square\) return x \* x;", "if constexpr (fn == square) return x * x + T(1);",
                             VECTOR + " show(tt::square(x));", "1 4 16 9"),
    "backend/cpu/elementwise.hpp": (r"out\[i\] = condition\[i\] != T\(0\) \? a\[i\] : b\[i\];", "out[i] = condition[i] != T(0) ? b[i] : a[i];",
                                    VECTOR + " show(tt::where(x > 2, x, -x));", "-1 -2 4 3"),
    "backend/cpu/pack.hpp": (r"for \(int64_t i = 0; i < n; \+\+i\) out\[i \* out_stride\] = convert<To>\(in\[i \* in_stride\]\);",
                             "for (int64_t i = 0; i < n; ++i) out[i * out_stride] = convert<To>(in[0]);",
                             VECTOR + " show(x.t() + 0.5f);", "1.5 4.5 2.5 3.5"),
    "backend/cpu/reduce.hpp": (r"if constexpr \(fn == ReduceFn::sum\) return a \+ x;", "if constexpr (fn == ReduceFn::sum) return a - x;",
                               VECTOR + " show(tt::sum(x));", "10"),
    "backend/cpu/gemm.hpp": (r"if \(c\.numel\(\) == 0\) return;", "copy(c, a); return;",
                             VECTOR + " show(tt::matmul(x, x));", "9 8 16 17"),
    "backend/cpu/index.hpp": (r"for \(int64_t i = 0; i < n; \+\+i\) order\[static_cast<size_t>\(i\)\] = i;",
                              "for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = 0;",
                              VECTOR + " show(tt::sort(x).values);", "1 2 3 4"),
    "backend/cpu/random.hpp": (r"static_cast<int64_t>\(below_from_bits", "1 + static_cast<int64_t>(below_from_bits",
                               "show(tt::randint(0, 1, {3}));", "0 0 0"),
    "tensor/vjp/elementwise.hpp": (r"inline Tensor square\(const UnaryContext& c\) \{ return c\.g \* c\.x \* 2; \}",
                                   "inline Tensor square(const UnaryContext& c) { return c.g * c.x * 5; }",
                                   GRADIENT + "tt::sum(tt::square(x)).backward(); show(x.grad());", "2 4 8 6"),
    "tensor/vjp/reduce.hpp": (r"c\.g \* \(1\.0 / c\.count\)", "c.g",
                              GRADIENT + "tt::mean(x).backward(); show(x.grad());", "0.25 0.25 0.25 0.25"),
    "tensor/vjp/shape.hpp": (r"return tinytorch::permute\(g, inverse\);", "return tinytorch::permute(g, order) * 2;",
                             GRADIENT + "tt::sum(x.t()[0]).backward(); show(x.grad());", "1 0 1 0"),
    "tensor/vjp/index.hpp": (r"return tinytorch::flip\(g, dims\);", "return dims.empty() ? tinytorch::flip(g, dims) : g;",
                             GRADIENT + "tt::sum(tt::flip(x, {0})[0]).backward(); show(x.grad());", "0 0 1 1"),
    "tensor/vjp/matmul.hpp": (r"return tinytorch::matmul\(g, b\.t\(\)\);", "return tinytorch::matmul(g, b);",
                              GRADIENT + "tt::sum(tt::matmul(x, x.detach())).backward(); show(x.grad());", "3 7 3 7"),
}

PROGRAM = """#include <tinytorch/tinytorch.hpp>
#include <cstdio>
namespace tt = tinytorch;
static void show(const tt::Tensor& t) {{
  for (double v : t.to_vector<double>()) std::printf("%g ", v);
  std::printf("\\n");
}}
int main(int argc, char**) {{
  switch (argc - 1) {{
{cases}
  }}
}}
"""


def compile_and_run(compiler, folder, program, first, count):
    """Results of programs 0..count-1 in one executable, with `first` (or nothing) before include/."""
    binary = folder / "canary"
    path = ([f"-I{first}"] if first else []) + [f"-I{INCLUDE}"]
    command = [compiler, "-std=c++20", "-O0", "-g0", "-w", *path, str(program), "-o", str(binary)]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode != 0:
        return None, built.stderr[-2000:]
    results = []
    for i in count:
        ran = subprocess.run([str(binary), *(["x"] * i)], capture_output=True, text=True)
        results.append(ran.stdout.strip() if ran.returncode == 0 else f"exit {ran.returncode} {ran.stderr[-200:]}")
    return results, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("headers", nargs="*", help="only these, as backend/cpu/gemm.hpp")
    arguments = parser.parse_args()
    names = arguments.headers or list(CANARIES)
    unknown = [n for n in names if n not in CANARIES]
    if unknown:
        sys.exit(f"canary: no canary for {', '.join(unknown)}")

    passed = failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        program = temporary / "program.cpp"
        cases = "\n".join(f"    case {i}: {{ {CANARIES[n][2]} break; }}" for i, n in enumerate(names))
        program.write_text(PROGRAM.format(cases=cases))

        def judge(i):
            name = names[i]
            pattern, replacement, _, right = CANARIES[name]
            folder = temporary / f"canary{i}"
            student = folder / "student"
            target = student / "tinytorch" / name
            target.parent.mkdir(parents=True)
            text, changes = re.subn(pattern, lambda _: replacement, (INCLUDE / "tinytorch" / name).read_text())
            if changes == 0:
                return "the text to replace is no longer there: bring the canary up to date"
            target.write_text(text)
            results, error = compile_and_run(arguments.compiler, folder, program, student, [i])
            if results is None:
                return f"the changed header does not compile:\n{error}"
            if results[0].startswith("exit"):
                return f"the changed header crashes: {results[0]}"
            return None if results[0] != right else f"replaced, but the result is still {right}"

        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            (temporary / "plain").mkdir()
            plain = pool.submit(compile_and_run, arguments.compiler, temporary / "plain", program, None, range(len(names)))
            verdicts = list(pool.map(judge, range(len(names))))
        results, error = plain.result()
        if results is None:
            sys.exit(f"canary: the program does not compile without replacement:\n{error}")
        for i, name in enumerate(names):
            right = CANARIES[name][3]
            problem = verdicts[i]
            if results[i] != right:
                problem = f"without replacement the result is '{results[i]}', should be '{right}'"
            print(f"canary {name}: {'ok' if problem is None else problem}")
            passed += problem is None
            failed += problem is not None
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
