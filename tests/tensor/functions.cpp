// Every operation against PyTorch: results and gradients of the cases in tests/golden/ops.safetensors.
//
// A row of the table is a call, and its text is its name: the generator (tests/golden/make_ops.py) stores the
// expected values under that text. Each case runs with contiguous and with strided inputs. It is a failure if
// an operation of functions.hpp is called by no case, if a case has no row, or if a row has no case.
#include <doctest/doctest.h>

#include <cmath>
#include <common/source_folder.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <support/few.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;

namespace {

struct Outputs {
  Tensors list;
  Outputs(const Tensor& t) : list{t} {}
  Outputs(const Tensors& ts) : list(ts) {}
  Outputs(const ValuesAndIndices& v) : list{v.values, v.indices} {}
};
using Call = Outputs (*)(const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& u, const Tensor& v);

Generator& seeded(uint64_t seed) {
  static Generator generator;
  return generator = Generator(seed);
}
// For each element of x, the fraction of samples that are at most as large.
Tensor share_up_to(const Tensor& x, const Tensor& samples) {
  const std::vector<double> values = samples.to_vector<double>();
  std::vector<float> shares;
  for (double point : x.to_vector<double>()) {
    const auto below = std::count_if(values.begin(), values.end(), [&](double v) { return v <= point; });
    shares.push_back(static_cast<float>(static_cast<double>(below) / static_cast<double>(values.size())));
  }
  return from_data(shares);
}

Tensor first(const Tensors& ts) { return ts[0]; }

// clang-format off
#define ROW(...) {#__VA_ARGS__, []([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y, \
    [[maybe_unused]] const Tensor& z, [[maybe_unused]] const Tensor& u, [[maybe_unused]] const Tensor& v) -> Outputs { \
    [[maybe_unused]] const Device cpu = default_device(); return __VA_ARGS__; }}
const std::pair<const char*, Call> kRows[] = {
    ROW(full({2, 3}, 1.5)), ROW(full({3}, 7, i64)), ROW(zeros({2, 2})), ROW(ones({1, 3}, f64)),
    ROW(zeros_like(x)), ROW(ones_like(x)), ROW(arange(2, 11, 3)), ROW(arange(5, -4, -2)),
    ROW(arange(0, 1, 0.3, f32)), ROW(linspace(-1, 2, 7)), ROW(linspace(3, 3.5, 1, f64)), ROW(eye(3)),
    ROW(share_up_to(x, rand({200000}, f32, cpu, seeded(1)))),
    ROW(share_up_to(x, rand({200000}, f64, cpu, seeded(2)))),
    ROW(share_up_to(x, uniform(-1, 3, {200000}, f32, cpu, seeded(9)))),
    ROW(share_up_to(x, randn({200000}, f32, cpu, seeded(3)))),
    ROW(share_up_to(x, randn({200000}, f64, cpu, seeded(4)))),
    ROW(share_up_to(x, randn({200000}, bf16, cpu, seeded(5)))),
    ROW(share_up_to(x, randint(-1, 4, {200000}, i64, cpu, seeded(6)))),
    ROW(share_up_to(x, bernoulli(0.3, {200000}, f32, cpu, seeded(7)))),

    ROW(neg(x)), ROW(abs(x)), ROW(sign(x)), ROW(square(x)), ROW(clamp(x, -0.5, 1.25)), ROW(floor(x)), ROW(ceil(x)),
    ROW(round(x)), ROW(logical_not(x)), ROW(exp(x)), ROW(log(x)), ROW(sqrt(x)), ROW(rsqrt(x)), ROW(reciprocal(x)),
    ROW(sin(x)), ROW(cos(x)), ROW(tanh(x)), ROW(sigmoid(x)), ROW(erf(x)), ROW(relu(x)), ROW(leaky_relu(x)),
    ROW(leaky_relu(x, 0.25)), ROW(silu(x)), ROW(gelu(x)), ROW(gelu_tanh(x)),

    ROW(add(x, y)), ROW(sub(x, y)), ROW(mul(x, y)), ROW(div(x, y)), ROW(pow(x, y)), ROW(maximum(x, y)),
    ROW(minimum(x, y)), ROW(eq(x, y)), ROW(ne(x, y)), ROW(lt(x, y)), ROW(le(x, y)), ROW(gt(x, y)), ROW(ge(x, y)),
    ROW(logical_and(x, y)), ROW(logical_or(x, y)), ROW(where(x, y, z)), ROW(masked_fill(x, y, -2.5)),
    ROW(mul(x, scalar_like(3, x))),

    ROW(sum(x)), ROW(sum(x, {-1}, true)), ROW(sum(x, {0})), ROW(sum(x, {0, 2})),
    ROW(mean(x)), ROW(mean(x, {-1}, true)), ROW(mean(x, {0})), ROW(mean(x, {0, 2})),
    ROW(max(x)), ROW(max(x, {-1}, true)), ROW(max(x, {0})), ROW(max(x, {0, 2})), ROW(max(x, {1})),
    ROW(min(x)), ROW(min(x, {-1}, true)), ROW(min(x, {0})), ROW(min(x, {0, 2})), ROW(min(x, {1})),
    ROW(norm(x)), ROW(norm(x, {-1}, true)), ROW(norm(x, {0})), ROW(norm(x, {0, 2})),
    ROW(prod(x)), ROW(prod(x, {-1}, true)), ROW(prod(x, {1})),
    ROW(any(x)), ROW(any(x, {1})), ROW(any(x, {0}, true)), ROW(all(x)), ROW(all(x, {1})), ROW(all(x, {0}, true)),
    ROW(var(x)), ROW(var(x, {-1}, 0, true)), ROW(var(x, {0, 2})), ROW(var(x, {0})),
    ROW(stddev(x)), ROW(stddev(x, {-1}, 0, true)), ROW(stddev(x, {0, 2})), ROW(stddev(x, {0})),
    ROW(argmax(x, -1)), ROW(argmax(x, 0, true)), ROW(argmax(x, 1)),
    ROW(argmin(x, -1)), ROW(argmin(x, 0, true)), ROW(argmin(x, 1)),
    ROW(cumsum(x, -1)), ROW(cumsum(x, 0)), ROW(cumsum(x, 1)), ROW(sum_to(x, {1, 3})),

    ROW(reshape(x, {4, -1})), ROW(flatten(x, 1)), ROW(flatten(x)), ROW(transpose(x, 0, -1)),
    ROW(permute(x, {2, 0, 1})), ROW(unsqueeze(x, -1)), ROW(squeeze(x, 1)), ROW(slice(x, 1, -2)),
    ROW(slice(x, 2, 0, kEnd, 2)), ROW(slice(x, 0, 0, -1)), ROW(select(x, 1, -1)), ROW(split(x, 2, 1)),
    ROW(chunk(x, 2, -1)), ROW(contiguous(transpose(x, 1, 2))), ROW(clone(x)), ROW(flip(x, {0, -1})), ROW(tril(x)),
    ROW(tril(x, -1)), ROW(triu(x, 1)), ROW(pad(x, {{0, 0}, {1, 2}, {0, 1}}, 2.5)),
    ROW(expand(unsqueeze(x, 1), {-1, 2, -1, -1})), ROW(cast(cast(x, bf16), f32)), ROW(cast(cast(x, f16), f32)),
    ROW(cast(x, f64)), ROW(cast(x, i32)), ROW(cast(x, u8)), ROW(cast(x, boolean)),
    ROW(cat({x, y}, -1)), ROW(cat({x, y, x}, 0)), ROW(stack({x, y}, 1)),
    ROW(index_select(x, 1, y)), ROW(index_select(x, 0, y)), ROW(gather(x, 0, y)), ROW(gather(x, -1, y)),
    ROW(gather(x, 1, y)), ROW(scatter_add(x, 0, y, z)), ROW(scatter_add(x, -1, y, z)),
    ROW(sort(x)), ROW(sort(x, 0, true)), ROW(sort(x, -1, true)), ROW(topk(x, 3)), ROW(topk(x, 2, 0, false)),

    ROW(matmul(x, y)), ROW(matmul(x, transpose(y, 0, 1))), ROW(linear(x, y, z)), ROW(linear(x, y)),

    ROW(logsumexp(x)), ROW(logsumexp(x, {-1}, true)), ROW(logsumexp(x, {0})), ROW(logsumexp(x, {0, 2})),
    ROW(conv2d(x, y, z)), ROW(conv2d(x, y)), ROW(conv2d(x, y, z, {2, 1})), ROW(conv2d(x, y, z, {1, 2, 2})),
    ROW(conv2d(x, y, z, {2, 1, 1, 2})), ROW(conv2d(x, y, z, {1, 0, 1, 3})), ROW(conv2d(x, y, z, {3, 2, 2})),
    ROW(max_pool2d(x)), ROW(max_pool2d(x, {3, 2, 1})), ROW(max_pool2d(x, {2, 1})),
    ROW(avg_pool2d(x)), ROW(avg_pool2d(x, {3, 2, 1})),
    ROW(adaptive_avg_pool2d(x, 3, 2)), ROW(adaptive_avg_pool2d(x, 1, 1)),
    ROW(softmax(x)), ROW(softmax(x, 1)), ROW(log_softmax(x)), ROW(log_softmax(x, 1)),
    ROW(layer_norm(x, y, z)), ROW(layer_norm(x)), ROW(layer_norm(x, y, z, 0.1)), ROW(rms_norm(x, y)), ROW(rms_norm(x)),
    ROW(scaled_dot_product_attention(x, y, z)), ROW(scaled_dot_product_attention(x, y, z, {.causal = true})),
    ROW(scaled_dot_product_attention(x, y, z, {.causal = true, .scale = 0.3})),
    ROW(scaled_dot_product_attention(x, y, z, {.causal = true, .window = 2})),
    ROW(joined_attention(x, 3, 3)), ROW(joined_attention(x, 4, 2, {.causal = true})),
    ROW(linear_cross_entropy(x, y, z)),
    ROW(linear_cross_entropy(x, y, z, {.label_smoothing = 0.1, .reduction = Reduction::sum})),
    ROW(bias_activation(x, y, Activation::gelu_tanh)), ROW(bias_activation(x, y, Activation::silu)),
    ROW(linear_activation(x, y, z, Activation::gelu)), ROW(linear_activation(x, y, z, Activation::relu)),
    ROW(linear_residual(x, y, z, u)), ROW(linear_residual(x, y, {}, z)),
    ROW(mlp(x, y, z, u, v, Activation::gelu_tanh)), ROW(mlp(x, y, z, u, v, Activation::gelu)),
    ROW(mlp(x, y, {}, z, {}, Activation::relu)),
    ROW(residual_layer_norm(x, y, z, u).normalized), ROW(residual_layer_norm(x, y, z, u).sum),
    ROW(residual_rms_norm(x, y, z).normalized),
    ROW(batch_norm_train(x, y, z)), ROW(first(batch_norm_train(x, y, z))), ROW(batch_norm_infer(x, y, z, u, v)),
    ROW(group_norm(x, 2, y, z)), ROW(group_norm(x, 3)),
    ROW(share_up_to(x, dropout(ones({200000}), 0.25, seeded(8)))), ROW(dropout(x, 0)), ROW(embedding(x, y)),
    ROW(cross_entropy(x, y)), ROW(cross_entropy(x, y, {.label_smoothing = 0.1})),
    ROW(cross_entropy(x, y, {.ignore_index = 4, .reduction = Reduction::sum})),
    ROW(cross_entropy(x, y, {.label_smoothing = 0.2, .reduction = Reduction::none})),
    ROW(mse_loss(x, y)), ROW(mse_loss(x, y, Reduction::sum)), ROW(mse_loss(x, y, Reduction::none)),
    ROW(bce_with_logits(x, y)), ROW(bce_with_logits(x, y, Reduction::sum)), ROW(bce_with_logits(x, y, Reduction::none)),
};
#undef ROW
// clang-format on

using Golden = std::map<std::string, Tensor>;                        // role -> tensor
using Cases = std::map<std::string, std::map<std::string, Golden>>;  // call -> label -> roles

std::filesystem::path root() {
  return tinytorch_tree::kSourceFolder;
}

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string without_spaces(std::string s) {
  std::erase(s, ' ');
  return s;
}

// Reads the file without io/, so that an error in io/ cannot hide an error here.
Cases load_cases() {
  const std::string bytes = read_all(root() / "tests/golden/ops.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::map<std::string, DType> types = {{"F32", f32}, {"F64", f64}, {"BF16", bf16},
                                              {"F16", f16}, {"I8", i8},   {"U8", u8},
                                              {"I32", i32}, {"I64", i64}, {"BOOL", boolean}};
  Cases cases;
  const nlohmann::json index = nlohmann::json::parse(bytes.substr(8, header));
  for (const auto& [key, entry] : index.items()) {
    if (key == "__metadata__") continue;
    Shape shape;
    for (int64_t size : entry.at("shape")) shape.push_back(size);
    Tensor t = empty(shape, types.at(entry.at("dtype")), cpu);
    std::memcpy(t.raw(), bytes.data() + 8 + header + entry.at("data_offsets")[0].get<size_t>(), t.bytes());
    const size_t bar = key.find('|'), second = key.find('|', bar + 1);
    cases[without_spaces(key.substr(0, bar))][key.substr(bar + 1, second - bar - 1)][key.substr(second + 1)] =
        t.to(default_device());
  }
  return cases;
}

// The same values with strides: dimensions in reverse order in memory, with gaps between elements.
Tensor strided(const Tensor& t) {
  Shape spread;
  for (int d = t.rank() - 1; d >= 0; --d) spread.push_back(t.shape()[d]);
  spread.push_back(2);
  const Tensor memory = zeros(spread, t.dtype());
  Dims order;
  for (int d = t.rank() - 1; d >= 0; --d) order.push_back(d);
  return memory.select(t.rank(), 1).permute(order).copy_(t).detach();
}

Tensor cotangent(const Tensor& like, int64_t k) {
  std::vector<float> values;
  for (int64_t i = 0; i < like.numel(); ++i)
    values.push_back(static_cast<float>((7 * (i + k) + 3) % 11 - 5) / 4.0f);
  return from_data(values, like.shape()).to(like.dtype());
}

// Relative tolerance with an absolute floor for cancellation: a sum of terms around 1 is exact to epsilon
// of 1.
void check_close(const Tensor& actual, const Tensor& expected, double relative, double absolute) {
  REQUIRE(actual.shape() == expected.shape());
  REQUIRE(actual.dtype() == expected.dtype());
  const std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  double scale = 0;
  for (double v : e) scale = std::isfinite(v) ? std::max(scale, std::abs(v)) : scale;
  const double floor = std::max(absolute, relative * std::min(scale, 1.0));
  for (size_t i = 0; i < e.size(); ++i) {
    CAPTURE(i);
    const bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]));
    if (!same) CHECK(std::abs(a[i] - e[i]) <= floor + relative * std::abs(e[i]));
  }
}

// Tolerance in units of the last place. f32 and f64: for the polynomials and sums behind a result; 16-bit
// results are rounded once from f32, their gradients once per step of the derivative.
double tolerance(DType t, bool gradient) {
  if (t == f32) return 32 * epsilon_of(t);
  if (t == f64) return 64 * epsilon_of(t);
  return (gradient ? 2.0 : 0.51) * epsilon_of(t);
}

void check_case(Call call, const Golden& golden, bool with_strides) {
  const std::string names = "xyzuv";
  Tensor in[5];
  bool any_grad = false;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = golden.find(names.substr(i, 1));
    if (found == golden.end()) continue;
    in[i] = with_strides ? strided(found->second) : found->second.clone();
    if (golden.contains("d" + names.substr(i, 1))) {
      in[i].requires_grad_();
      any_grad = true;
    }
  }
  const double absolute = golden.contains("tol") ? golden.at("tol").item<double>() : 0;
  const Tensors outputs = call(in[0], in[1], in[2], in[3], in[4]).list;
  for (size_t k = 0; k < outputs.size(); ++k) {
    CAPTURE(k);
    REQUIRE(golden.contains(std::to_string(k)));
    check_close(outputs[k], golden.at(std::to_string(k)), tolerance(outputs[k].dtype(), false), absolute);
  }
  REQUIRE(!golden.contains(std::to_string(outputs.size())));
  if (!any_grad) return;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].requires_grad())
      outputs[k].backward(cotangent(outputs[k], static_cast<int64_t>(k)), k + 1 < outputs.size());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = "d" + names.substr(i, 1);
    if (!golden.contains(name)) continue;
    CAPTURE(name);
    REQUIRE(in[i].grad().defined());
    check_close(in[i].grad(), golden.at(name), tolerance(in[i].dtype(), true), 0);
  }
}

}  // namespace

TEST_CASE("every operation agrees with PyTorch in results and gradients") {
  const Cases cases = load_cases();
  std::set<std::string> called;
  for (const auto& [text, call] : kRows) {
    const std::string key = without_spaces(text);
    CAPTURE(key);
    CHECK_MESSAGE(called.insert(key).second, "two rows have this call");
    REQUIRE_MESSAGE(cases.contains(key), "no case in ops.safetensors: add it to make_ops.py and run that");
    for (const auto& [name, golden] : cases.at(key)) {
      const std::string label = name;  // clang 14 cannot capture a structured binding in a lambda
      CAPTURE(label);
      for (const bool with_strides : {false, true}) {
        if (test::left_out(16)) continue;
        CAPTURE(with_strides);
        try {
          check_case(call, golden, with_strides);
        } catch (const Error& e) {
          FAIL_CHECK(e.what());
        }
      }
    }
  }
  for (const auto& entry : cases) {
    CHECK_MESSAGE(called.contains(entry.first), "no row for the case " << entry.first);
  }
}

TEST_CASE("every operation of functions.hpp has a golden case") {
  const std::string header = read_all(root() / "include/tinytorch/tensor/functions.hpp");
  std::set<std::string> words;
  const std::regex word("\\w+"), declaration("TT_API \\w+ (\\w+)\\(");
  for (const auto& [text, call] : kRows) {
    const std::string s = text;
    for (std::sregex_iterator it(s.begin(), s.end(), word), end; it != end; ++it) words.insert(it->str());
  }
  int declared = 0;
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it, ++declared)
    CHECK_MESSAGE(words.contains((*it)[1].str()), "no golden case for " << (*it)[1].str());
  CHECK(declared > 100);
}
