"""Tests of the API index: the scanner of headers, the entry of an op, and the output of `tt api`."""
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "modules"))
sys.dont_write_bytecode = True
import api
import course
import headers
import sheet

HEADER = '''// Shapes: a made-up header.
// Its summary has two lines.
//
// This is a second paragraph.
#pragma once
#include <vector>

namespace tinytorch::inline TT_BUILD {

using Row = std::vector<float>;

// --- making ---
// A tensor of ones, for example
//   ones({2, 3})
TT_API Tensor ones(const Shape& shape,
                   DType dtype = DType::f32, TT_LOC);

TT_API Tensor halves(const Tensor& x, TT_LOC);  // halves to even
TT_API Tensor plain(const Tensor& x, TT_LOC);

struct Options {
  int64_t stride = 1, padding = 0;  // a comment
                                    // of two lines
  std::function<void(int)> hook;
  double values[3] = {1, 2, 3};
};
enum class Reduction : uint8_t { mean, sum };

class Layer final : public Module {
 public:
  explicit Layer(int64_t n, Options options = {}) : n_{n}, options_(options) { check(n); }
  Layer(const Layer&) = delete;
  Layer(Layer&& other) noexcept;
  // [N, C] -> [N]
  template <class T>
  requires std::is_integral_v<T> T forward(const Tensor& x) const override { return x < 1 ? T{} : T{2}; }
  bool operator==(const Layer& other) const { return "}" == other.name(); }
  Layer& operator+=(const Layer& other) { return *this; }

 protected:
  int hidden(int x);

 private:
  int64_t n_;
  Options options_;
};

namespace statistics {
inline double median(std::vector<double> values) { return values[0]; }  // 1'000 values
}

// ---------------------------------------------------------------------------------------------------------

inline int Layer::hidden(int x) { return x; }
inline int helper(int x) { return x; }

}  // namespace tinytorch::inline TT_BUILD
#if TT_BODIES(TENSOR)
TT_API Tensor ones(const Shape& shape, DType dtype, Loc loc) { return full(shape, 1, dtype, loc); }
#endif
'''

OPS = '''#if TT_BODIES(TENSOR)
struct Twice final : Primitive<Twice> {
  enum class Kind { a, b };
  explicit Twice(int k) : kind(k) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(name(), in[0], loc);
    if (kind == TwiceKind::other) fail("TT-SHAPE-77", "not for this function", loc);
    if (in[0].rank() == 0) fail("TT-SHAPE-78", "needs a dimension", loc);
    return {};
  }
  Tensors vjp(const Saved& s) const override { fail("TT-GRAD-77", "of the derivative"); }
};
inline Tensor helper(const Tensor& x, Loc loc) { return apply(Twice(TwiceKind::one), {x}, loc); }
TT_API Tensor twice(const Tensor& x, Loc loc) { return helper(TwiceKind::one, x, loc); }
#endif
'''
RULES = '''inline void require_floating(const char* op, const Tensor& t, Loc loc) { fail("TT-DTYPE-77", "floating", loc); }
'''
FUNCTIONS = '''// Functions.
// --- doubling ---
// Two times x.
TT_API Tensor twice(const Tensor& x, TT_LOC);
'''


COMPOSED = ('// --- composed ---\n'
            'TT_API Tensor four_times(const Tensor& x, TT_LOC);\n'
            '// Any x. Dtypes: all. Never fails.\n'
            'TT_API Tensor any_way(const Tensor& x, TT_LOC);\n'
            'TT_API Tensor copied(const Tensor& x, TT_LOC);\n'
            'TT_API Tensor picked(const Tensor& x, const Tensor& index, TT_LOC);\n'
            'TT_API Tensor counted(const Tensor& index, TT_LOC);\n'
            'TT_API Tensor operator*=(TensorArg y, TensorArg b);\n'
            'TT_API Tensor operator*=(TensorArg y, Scalar b);\n')
COMPOSED_OPS = '''#if TT_BODIES(TENSOR)
TT_API Tensor four_times(const Tensor& x, Loc loc) { const Tensor y = twice(x, loc); return copied(y, loc); }
TT_API Tensor any_way(const Tensor& x, Loc loc) { return is_floating(x.dtype()) ? twice(x, loc) : x; }
TT_API Tensor copied(const Tensor& x, Loc loc) { return x.clone().times(std::twice(2)); }
TT_API Tensor picked(const Tensor& x, const Tensor& index, Loc loc) { require_index("picked", index, loc); return x; }
TT_API Tensor counted(const Tensor& index, Loc loc) { require_index("counted", index, loc); return index; }
TT_API Tensor operator*=(TensorArg y, TensorArg b) { return in_place(MathFn::mul, y.tensor, b.tensor, y.loc); }
TT_API Tensor operator*=(TensorArg y, Scalar b) { return y *= TensorArg(scalar_like(b, y), y.loc); }
inline Tensor in_place(MathFn fn, const Tensor& y, const Tensor& b, Loc loc) {
  if (fn == backend::MathFn::div) require_accepted("math", Accepts::floating, y, loc);
  require_accepted("math", Accepts::numbers, y, loc);
}
#endif
'''


class Sheet(unittest.TestCase):
    def test_the_sheet_of_each_task_has_the_functions_to_write_and_each_header_once(self):
        for task in course.Course().tasks:
            with self.subTest(task=task.id):
                parts = sheet.page([task])
                first = "\n".join(parts[0][1])
                if "include" not in task.write:  # 3.21 also writes a member that is called like this
                    for name in task.write:
                        self.assertRegex(first, rf"(?<!\w){re.escape(name.partition('#')[0].split('::')[-1])}\(")
                headings = [heading.split(">")[0] for heading, _ in parts]
                self.assertEqual(len(headings), len(set(headings)))
                self.assertTrue(all(lines for _, lines in parts))

    def lines_of(self, name):
        return dict((heading.partition(">")[0][1:], lines) for heading, lines in sheet.page([course.Course().task(name)]))

    def test_types_and_functors_that_a_header_reaches_are_described(self):
        found = self.lines_of("1.4")
        self.assertIn("  int64_t numel() const  // Product of all values", found["tinytorch/core/shape.hpp"])
        self.assertIn("  Strides strides  // in elements", found["tinytorch/backend/view.hpp"])
        self.assertTrue(any("struct Unary" in l or "UnaryFn" in l for l in found["tinytorch/backend/functors.hpp"]))
        self.assertNotIn("tinytorch/tensor/tensor.hpp", found)  # 1.4 knows no tensors
        self.assertIn("tinytorch/tensor/tensor.hpp", self.lines_of("2.6"))

    def test_kernels_are_found_and_the_sheet_of_a_module_is_shorter(self):
        self.assertRegex("\n".join(self.lines_of("1.8")["tasks/backend/cuda/kernels/elementwise.cuh"]), r"__global__ void map_kernel\(")
        module = course.Course().module("01")
        whole = sum(len(lines) for _, lines in sheet.page(module.tasks))
        self.assertLess(whole, sum(len(lines) for t in module.tasks for _, lines in sheet.page([t])) / 2)

    def test_the_command_accepts_a_module_and_a_task(self):
        for name, title in (("01", "01_tensor"), ("1.4", "1.4 Elementwise, with broadcasting")):
            done = subprocess.run([sys.executable, str(ROOT / "modules" / "tt"), "api", name], stdout=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(done.stdout.decode().startswith(f"{title}: what the headers of its tasks may call"))


class Scanner(unittest.TestCase):
    def setUp(self):
        self.found = {d.full_name: d for d in headers.Scanner(HEADER).found if d.declared and not d.helper}

    def test_a_signature_is_one_line_without_the_location_parameter(self):
        self.assertEqual(self.found["ones"].signature, "Tensor ones(const Shape& shape, DType dtype = DType::f32)")
        self.assertEqual(self.found["Layer::Layer"].signature, "Layer(Layer&& other) noexcept")
        self.assertEqual(self.found["Layer::forward"].signature,
                         "template <class T> requires std::is_integral_v<T> T forward(const Tensor& x) const")
        self.assertEqual(self.found["Reduction"].signature, "enum class Reduction { mean, sum }")
        self.assertEqual(self.found["Row"].signature, "using Row = std::vector<float>")

    def test_a_comment_above_or_to_the_right_of_a_declaration_is_found(self):
        self.assertEqual(self.found["ones"].comment, "A tensor of ones, for example `ones({2, 3})`")
        self.assertEqual(self.found["halves"].comment, "halves to even")
        self.assertEqual(self.found["Options::stride"].comment, "a comment of two lines")
        self.assertEqual(self.found["Layer::forward"].comment, "[N, C] -> [N]")
        self.assertEqual(self.found["plain"].comment, "")

    def test_lines_sections_and_namespaces_are_found(self):
        lines = HEADER.splitlines()
        for name in ("ones", "halves", "Layer::forward", "statistics::median"):
            line = lines[self.found[name].line - 1]
            self.assertIn(name.rpartition("::")[2], line + lines[self.found[name].line])
        self.assertEqual(self.found["ones"].section, "making")
        self.assertEqual(self.found["statistics::median"].space, "statistics")

    def test_kinds_and_access_are_found(self):
        kinds = {name: d.kind for name, d in self.found.items()}
        self.assertEqual({kinds[n] for n in ("Options::stride", "Options::hook", "Options::values", "Layer::n_")}, {"field"})
        self.assertEqual({kinds[n] for n in ("ones", "Layer::operator==", "Layer::hidden")}, {"function"})
        self.assertEqual({kinds[n] for n in ("Options", "Layer")}, {"class"})
        self.assertFalse(self.found["Layer::hidden"].public or self.found["Layer::n_"].public)
        self.assertTrue(self.found["Layer::operator=="].public)
        self.assertEqual(self.found["Layer::operator+="].kind, "function")

    def test_bodies_and_helpers_below_the_separator_line_are_not_declarations(self):
        behind = [d.name for d in headers.Scanner(HEADER).found if d.helper or not d.declared]
        self.assertEqual(behind, ["hidden", "helper", "ones"])

    def test_summary_is_the_first_paragraph(self):
        self.assertEqual(headers.summary(HEADER), "Shapes: a made-up header. Its summary has two lines.")


class Index(unittest.TestCase):
    def library(self, ops=OPS, functions=FUNCTIONS):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        files = {"functions.hpp": functions, "ops/twice.hpp": ops, "rules.hpp": RULES}
        for name, text in files.items():
            path = Path(folder.name, "include/tinytorch/tensor", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return api.Library(folder.name)

    def test_error_codes_come_from_the_rule_and_the_checks_that_it_calls(self):
        entry, = self.library().named("twice")
        self.assertEqual(entry.codes, ["TT-DTYPE-77", "TT-SHAPE-78"])
        self.assertEqual(entry.dtypes, ["floating"])

    def test_a_function_whose_op_runs_on_the_host_reads_operands_on_the_cpu(self):
        self.assertFalse(self.library().named("twice")[0].on_cpu)
        run = "  void run(const Tensors& in, Tensors& out) const override { on_host(in, out, [&] {}); }\n"
        library = self.library(OPS.replace("  Tensors vjp", run + "  Tensors vjp"))
        self.assertTrue(library.named("twice")[0].on_cpu)
        self.assertIn("Two times x. Reads operands on the CPU. Dtypes: floating.", library.page())

    def test_a_composed_function_has_the_strictest_dtypes_of_the_functions_that_it_calls_or_those_of_its_comment(self):
        library = self.library(OPS + COMPOSED_OPS, FUNCTIONS + COMPOSED)
        dtypes = {e.name: e.dtypes for e in library.entries}
        self.assertEqual(dtypes, {"twice": ["floating"], "four_times": ["floating"], "any_way": ["all"], "copied": ["all"],
                                  "picked": ["all", "indices i64"], "counted": ["indices i64"], "operator*=": ["numbers"]})
        self.assertEqual(library.named("any_way")[0].description, "Any x. Never fails.")
        self.assertIn("  Any x. Never fails. Dtypes: all.", library.page())

    def test_the_page_has_signature_comment_dtypes_and_errors(self):
        page = self.library().page()
        self.assertIn("- `Tensor twice(const Tensor& x)` [4](tensor/functions.hpp#L4)\\\n  Two times x. Dtypes: floating. "
                      "Errors: `TT-DTYPE-77`, `TT-SHAPE-78`.\n", page)
        self.assertIn("#### Doubling", page)

    def test_spellings_of_a_name_are_equal(self):
        self.assertEqual(api.words("LogSoftmax"), api.words("log_softmax"))
        self.assertEqual(api.plain("tt::Conv2d"), api.plain("conv_2d"))


class Committed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = api.Library(ROOT)

    def test_every_tensor_function_is_on_the_page(self):
        text = (ROOT / "include/tinytorch/tensor/functions.hpp").read_text(encoding="utf-8")
        names = re.findall(r"^TT_API [\w:]+ (\w+)\(", text, re.M)
        page = (ROOT / api.PAGE).read_text(encoding="utf-8")
        listed = set(re.findall(r"^- `[\w:]+ (\w+)\(.*\(tensor/functions\.hpp#L\d+\)", page, re.M))
        self.assertGreater(len(names), 100)
        self.assertEqual(set(names), listed)

    def test_every_tensor_function_and_operator_has_dtypes(self):
        """tests/tensor/dtypes.cpp calls each of them with each dtype."""
        functions = [e for e in self.library.entries if api.has_dtypes(e)]
        self.assertGreater(len(functions), 300)
        self.assertEqual([e.signature for e in functions if not e.dtypes], [])
        self.assertLessEqual({"softmax", "where", "lerp", "solve", "operator+", "operator+=", "operator^="}, {e.name for e in functions})

    def test_every_header_of_these_folders_is_in_one_group(self):
        for folder in ("autograd", "layers", "transformer", "vision", "io", "data", "profiling", "benchmarking"):
            for path in (ROOT / "include/tinytorch" / folder).glob("*.hpp"):
                name = f"{folder}/{path.name}"
                if name not in api.LEFT_OUT:
                    self.assertTrue({e.group for e in self.library.entries if e.file == name} or path.read_text().count("\n") < 60, name)

    def test_every_error_code_is_in_explain_json(self):
        catalogue = json.loads((ROOT / "modules/explain.json").read_text(encoding="utf-8"))
        self.assertEqual({c for e in self.library.entries for c in e.codes} - set(catalogue), set())

    def test_every_op_has_a_kernel_on_both_devices_or_runs_on_the_host(self):
        """The page says so. TT_KERNEL names the kernels of both devices, so the compiler knows that they exist."""
        others = {"Fill": "fill_values(", "Transfer": "backend::cuda::copy_bytes(",  # from a device to another one
                  "CrossEntropyTrain": "backend::cuda::"}  # cross_entropy applies it to tensors on CUDA only
        runs = [f for f in self.library.functions["run"] if f.file.startswith("tensor/ops/") and f.body.strip("{} \n")]
        self.assertGreater(len(runs), 40)
        for run in runs:
            with self.subTest(op=run.owner):
                self.assertTrue("TT_KERNEL(" in run.body or api.TO_HOST.search(run.body) or others.get(run.owner, "none") in run.body)

    def test_functions_that_read_operands_on_the_cpu_say_so(self):
        found = {e.name for e in self.library.entries if e.on_cpu}
        self.assertLessEqual({"solve", "svd", "svdvals", "pinv", "nonzero", "unique", "unique_consecutive", "multinomial"}, found)
        self.assertFalse({"matmul", "softmax", "sort", "gather", "where"} & found)

    def test_known_functions_have_these_error_codes(self):
        expected = {"softmax": ["TT-DTYPE-02", "TT-SHAPE-03"], "add": ["TT-DTYPE-03", "TT-DTYPE-05", "TT-SHAPE-02"],
                    "exp": ["TT-DTYPE-02"], "max": ["TT-SHAPE-03", "TT-SHAPE-08", "TT-SHAPE-10"], "eq": ["TT-DTYPE-03", "TT-SHAPE-02"]}
        found = {e.name: e.codes for e in self.library.entries if e.file == "tensor/functions.hpp"}
        self.assertEqual({name: found[name] for name in expected}, expected)


class Command(unittest.TestCase):
    def tt(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "modules/tt", "api", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, done.stdout.decode()

    def test_a_function_is_shown_with_its_layer_and_related_functions(self):
        code, text = self.tt("softmax")
        self.assertEqual(code, 0)
        for part in ("tensor/functions.hpp:", "class Softmax : public Module", "TT-SHAPE-03", "see also: LogSoftmax, log_softmax"):
            self.assertIn(part, text)

    def test_a_misspelled_name_is_corrected(self):
        code, text = self.tt("softmx")
        self.assertEqual(code, 1)
        self.assertIn("did you mean softmax", text)

    def test_json_has_all_groups(self):
        code, text = self.tt("--json")
        self.assertEqual((code, list(json.loads(text)["groups"])), (0, [group for group, _ in api.GROUPS]))


if __name__ == "__main__":
    unittest.main()
