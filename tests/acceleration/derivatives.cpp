// Compiled derivatives of every operation: the gradients of the function itself, or a refusal, but never
// other gradients without a word.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <support/cases/all.hpp>
#include <support/errors.hpp>
#include <support/few.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tree/source_folder.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

const tt::CompileOptions kStrict{.kernels = tt::RegionKernels::interpreted, .strict = true};

// call -> label -> name of an operand, "x" to "v", or "d" and the name if it has a gradient.
using GoldenInputs = std::map<std::string, std::map<std::string, std::map<std::string, Tensor>>>;

GoldenInputs golden_inputs() {
  GoldenInputs out;
  const std::string file = std::string(tinytorch_tree::kSourceFolder) + "/tests/golden/ops.safetensors";
  for (const auto& [key, tensor] : tt::load_safetensors(file)) {
    const size_t bar = key.find('|'), second = key.find('|', bar + 1);
    std::string call = key.substr(0, bar);
    std::erase(call, ' ');
    out[call][key.substr(bar + 1, second - bar - 1)][key.substr(second + 1)] =
        tensor.to(tt::default_device());
  }
  return out;
}

// The gradients of f's results times fixed weights that differ from element to element.
std::vector<std::vector<double>> gradients_of(const std::function<Tensors(const Tensors&)>& f,
                                              const Tensors& in, uint64_t seed) {
  for (const Tensor& t : in) {
    if (t.requires_grad()) Tensor(t).zero_grad();
  }
  tt::Generator g(seed);
  const Tensors results = f(in);
  for (size_t k = 0; k < results.size(); ++k) {
    if (!results[k].requires_grad()) continue;
    std::vector<double> weights(static_cast<size_t>(results[k].numel()));
    for (double& w : weights) w = g.uniform(0.5, 2);
    const Tensor weight = tt::from_data(weights, results[k].shape()).to(results[k].dtype());
    results[k].backward(weight.to(results[k].device()), k + 1 < results.size());
  }
  std::vector<std::vector<double>> out;
  for (const Tensor& t : in) {
    if (t.requires_grad())
      out.push_back(t.grad().defined() ? t.grad().to_vector<double>() : std::vector<double>());
  }
  return out;
}

void require_close(const std::vector<double>& got, const std::vector<double>& want, double epsilon) {
  REQUIRE(got.size() == want.size());
  double scale = 1;
  for (const double v : want) scale = std::isfinite(v) ? std::max(scale, std::abs(v)) : scale;
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    if (!same) REQUIRE(std::abs(got[i] - want[i]) <= 8 * epsilon * scale);
  }
}

// y = x^2, whose derivative 2 g x is computed by a loop over elements.
struct Outside final : tt::Primitive<Outside> {
  static constexpr const char* kName = "outside";
  bool rounded = false, zero = false;
  tt::Specs infer(const Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override {
    for (int64_t i = 0; i < in[0].numel(); ++i)
      out[0].data<float>()[i] = in[0].data<float>()[i] * in[0].data<float>()[i];
  }
  tt::Save saves() const override { return tt::Save::inputs; }
  Tensors vjp(const tt::Saved& s, const Tensors& g) const override {
    Tensor dx = tt::zeros(g[0].shape(), tt::f32, tt::cpu);
    float* const to = static_cast<float*>(dx.view_of().data);
    const auto* const of = static_cast<const float*>(g[0].view_of().data);
    const auto* const x = static_cast<const float*>(s.inputs[0].view_of().data);
    for (int64_t i = 0; i < dx.numel(); ++i) to[i] = zero ? 0 : 2 * of[i] * x[i];
    return {rounded ? dx.to(tt::bf16).to(tt::f32) : dx};
  }
};
}  // namespace

TEST_CASE("every operation: compiled gradients are the function's, or the capture is refused") {
  const GoldenInputs golden = golden_inputs();
  int compared = 0, refused = 0;
  for (const cases::OpCase& row : cases::all_calls()) {
    std::string key = row.text;
    std::erase(key, ' ');
    const auto known = golden.find(key);
    if (!row.golden || known == golden.end()) continue;
    CAPTURE(key);
    for (const auto& [name, values] : known->second) {
      const std::string label = name;
      CAPTURE(label);
      if (test::left_out(16)) continue;
      Tensors in;
      std::vector<int> place;  // of each operand in `in`
      double epsilon = 0;
      for (const char letter : std::string("xyzuv")) {
        const auto found = values.find(std::string(1, letter));
        place.push_back(found == values.end() ? -1 : static_cast<int>(in.size()));
        if (found == values.end()) continue;
        in.push_back(found->second.clone());
        if (!values.contains("d" + std::string(1, letter))) continue;
        in.back().requires_grad_();
        epsilon = std::max(epsilon, tt::epsilon_of(in.back().dtype()));
      }
      if (epsilon == 0) continue;
      const auto call = [&](const Tensors& t) -> Tensors {
        const auto at = [&](size_t k) { return place[k] < 0 ? Tensor() : t[static_cast<size_t>(place[k])]; };
        return row.call(at(0), at(1), at(2), at(3), at(4)).list;
      };
      auto compiled = tt::compile(call, kStrict);
      std::vector<std::vector<double>> got;
      try {
        got = gradients_of([&](const Tensors& t) { return compiled(t); }, in, 1);
      } catch (const tt::Error& e) {
        const std::string code = e.what();
        CHECK_MESSAGE(code.find("TT-COMPILE-0") != std::string::npos, code);
        ++refused;
        continue;
      }
      const auto want = gradients_of(call, in, 1);
      REQUIRE(got.size() == want.size());
      for (size_t k = 0; k < got.size(); ++k) require_close(got[k], want[k], epsilon);
      ++compared;
    }
  }
  MESSAGE("compared " << compared << ", refused " << refused);
  CHECK(compared > 10 * refused);
}

TEST_CASE("a derivative that calls a kernel outside of an operation is refused, unless it is zero") {
  const Tensor x = tt::randn({5}, tt::f32, tt::cpu).requires_grad_();
  for (const bool rounded : {false, true}) {
    Outside op;
    op.rounded = rounded;
    const auto square = [&](const Tensor& t) { return tt::apply(op, {t * 3}); };
    auto strict = tt::compile(square, kStrict);
    const auto error = errors::thrown_by([&] { strict(x); });
    CHECK(error.code == "TT-COMPILE-04");
    CHECK(error.text.find("'outside'") != std::string::npos);
    auto lenient = tt::compile(square, {.kernels = tt::RegionKernels::interpreted});
    const auto run = [&](auto& f) {
      return gradients_of([&](const Tensors& t) { return Tensors{f(t[0])}; }, {x}, 3);
    };
    CHECK(run(lenient) == run(square));
    CHECK(!lenient.eager_reason().empty());
  }
  Outside flat;
  flat.zero = true;
  auto f = tt::compile([&](const Tensor& t) { return tt::apply(flat, {t}) + t; }, kStrict);
  CHECK(gradients_of([&](const Tensors& t) { return Tensors{f(t[0])}; }, {x}, 3) ==
        gradients_of([&](const Tensors& t) { return Tensors{tt::apply(flat, {t[0]}) + t[0]}; }, {x}, 3));
}

TEST_CASE("index_select: new gradients in each call") {
  const Tensor at = tt::from_data(std::vector<int64_t>{2, 0, 2, 1}, tt::Shape{4});
  const Tensor w = tt::randn({3, 4}).requires_grad_();
  const std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [&](const Tensor& x) { return tt::tanh(tt::index_select(x, 0, at) * 2); },
      [&](const Tensor& x) { return tt::index_select(x.to(tt::bf16), 1, at).to(tt::f32) * 3; },
  };
  for (size_t k = 0; k < functions.size(); ++k) {
    CAPTURE(k);
    auto compiled = tt::compile(functions[k], kStrict);
    for (uint64_t call = 0; call < 5; ++call) {
      CAPTURE(call);
      const Tensor x = tt::randn({3, 4}).requires_grad_();
      const auto run = [&](auto& f) {
        return gradients_of([&](const Tensors& t) { return Tensors{f(t[0])}; }, {x, w}, call);
      };
      const auto got = run(compiled), want = run(functions[k]);
      for (size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == want[i]);
    }
  }
}

TEST_CASE("results that the derivative reads, and arguments that are results, keep their gradients") {
  const Tensor w = tt::randn({2, 3, 4, 5}).requires_grad_();
  const std::vector<std::function<Tensors(const Tensor&)>> functions = {
      [&](const Tensor& x) { return Tensors{tt::max(x, {1}, true)}; },
      [&](const Tensor& x) {
        return Tensors{tt::tanh(x), tt::exp(x)};
      },
      [&](const Tensor& x) { return Tensors{x}; },
      [&](const Tensor& x) {
        return Tensors{x, x * 2, w};
      },
      [&](const Tensor& x) {
        return Tensors{x.transpose(1, 2), w * x};
      },
  };
  for (const bool channels_last : {false, true}) {
    for (size_t k = 0; k < functions.size(); ++k) {
      CAPTURE(k);
      CAPTURE(channels_last);
      auto compiled = tt::compile(functions[k], kStrict);
      for (uint64_t call = 0; call < 4; ++call) {
        Tensor x = tt::randn({2, 3, 4, 5});
        if (channels_last) x = tt::randn({2, 4, 5, 3}).permute({0, 3, 1, 2});
        x.requires_grad_();
        const auto run = [&](auto& f) {
          return gradients_of([&](const Tensors& t) { return f(t[0]); }, {x, w}, call);
        };
        const auto got = run(compiled), want = run(functions[k]);
        for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == want[i]);
      }
    }
  }
}
