// Random calls of every family of operations, with random shapes, layouts and dtypes. The tests' device must
// give the same results, gradients and errors as the CPU in double precision and row-major order.
//
//   TINYTORCH_TEST_DRAW=7 TINYTORCH_TEST_CASES=50000 test_tensor --source-file=*differential.cpp
//
// A failing case prints its number; TINYTORCH_TEST_CASE=number runs only that case.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <support/cases/elementwise.hpp>
#include <support/few.hpp>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace tt = tinytorch;
using cases::OpCase;
using tt::DType, tt::Dims, tt::Shape, tt::Tensor, tt::Tensors;

namespace {

// Source of all random choices; the case's number is the seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : generator_(seed) {}
  int64_t from(int64_t low, int64_t high) {  // inclusive
    return low + static_cast<int64_t>(generator_() % static_cast<uint64_t>(high - low + 1));
  }
  bool coin() { return from(0, 1) == 1; }
  // Usually small, sometimes larger than a vector, a warp or a thread block, rarely 0.
  int64_t size() {
    const int64_t kind = from(0, 19);
    return kind == 0 ? 0 : kind < 13 ? from(1, 9) : kind < 18 ? from(10, 70) : from(120, 300);
  }
  int64_t some() { return std::max<int64_t>(1, size()); }
  Shape shape(int64_t low, int64_t high) {
    Shape s;
    for (int64_t d = from(low, high); d > 0; --d) s.push_back(s.numel() > 300 ? from(1, 3) : size());
    return s;
  }
  int dim(const Shape& s) { return static_cast<int>(from(-s.size(), s.size() - 1)); }
  template <class T>
  T one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(from(0, static_cast<int64_t>(list.size()) - 1))];
  }

 private:
  std::mt19937_64 generator_;
};

using Run = std::function<Tensors(const Tensors&)>;

// A call whose parameters are drawn, but not its values: shapes of the inputs, i64 inputs, and the function.
struct Case {
  std::string text;
  std::vector<Shape> shapes;
  Run run;
  struct Index {
    Shape shape;
    int64_t low, high;  // range of the values, inclusive; an index out of range must be an error
  };
  std::vector<Index> indices{};
  bool distinct = false;   // no two values are equal, for functions where rounding would decide ties
  bool positive = false;   // values are at least 1/2
  bool any_dtype = false;  // integers are allowed
};
struct Family {
  std::string name;
  std::function<Case(Draw&)> make;
};

// A shape that broadcasts with s.
Shape broadcastable_with(Draw& d, const Shape& s) {
  Shape out;
  for (int i = static_cast<int>(d.from(0, s.size())); i < s.size(); ++i) out.push_back(d.coin() ? s[i] : 1);
  return out;
}
Dims some_dims(Draw& d, const Shape& s) {
  Dims out;
  for (int i = 0; i < s.size(); ++i) {
    if (d.coin()) out.push_back(d.coin() ? i : i - s.size());
  }
  return out;
}

template <class... F>
Run calls(F... f) {
  return [=](const Tensors& in) {
    Tensors out;
    (out.push_back(f(in)), ...);
    return out;
  };
}

// Unary functions of positive arguments, or of any. A jump would turn a rounding error into a difference.
std::vector<OpCase> unary_of(bool positive) {
  const std::set<std::string> jumps{"sign", "floor", "ceil", "round", "logical_not"};
  std::vector<OpCase> found;
  for (const OpCase& c : cases::unary_cases()) {
    if (!jumps.contains(c.name) && (c.operands[0].low > 0) == positive) found.push_back(c);
  }
  return found;
}

std::vector<Family> family_cases() {
  using namespace tt;
  using In = const Tensors&;
  using Binary = Tensor (*)(const Tensor&, const Tensor&, Loc);
  const auto loc = Loc::current();
  std::vector<Family> all;
  const auto add = [&](std::string name, std::function<Case(Draw&)> make) {
    all.push_back({std::move(name), std::move(make)});
  };

  add("unary", [=](Draw& d) -> Case {
    const OpCase c = d.one_of(unary_of(false));
    return {c.name, {d.shape(0, 4)}, calls(c.forward)};
  });
  add("unary of positive", [=](Draw& d) -> Case {
    const OpCase c = d.one_of(unary_of(true));
    return {.text = c.name, .shapes = {d.shape(0, 4)}, .run = calls(c.forward), .positive = true};
  });
  add("binary", [=](Draw& d) -> Case {
    const auto [name, f] = d.one_of<std::pair<const char*, Binary>>({{"add", tt::add},
                                                                     {"sub", sub},
                                                                     {"mul", mul},
                                                                     {"maximum", maximum},
                                                                     {"minimum", minimum},
                                                                     {"le", le},
                                                                     {"eq", eq}});
    Shape a = d.shape(0, 4), b = broadcastable_with(d, a);
    if (d.coin()) std::swap(a, b);
    return {.text = name,
            .shapes = {a, b},
            .run = calls([f = f, loc](In in) { return f(in[0], in[1], loc); }),
            .any_dtype = true};
  });
  add("binary of positive", [=](Draw& d) -> Case {
    const auto [name, f] = d.one_of<std::pair<const char*, Binary>>({{"div", tt::div}, {"pow", tt::pow}});
    const Shape a = d.shape(0, 3);
    return {.text = name,
            .shapes = {a, broadcastable_with(d, a)},
            .run = calls([f = f, loc](In in) { return f(in[0], in[1], loc); }),
            .positive = true};
  });
  add("numbers", [](Draw& d) -> Case {
    const int64_t k = d.from(-3, 3);
    return {.text = "numbers " + std::to_string(k),
            .shapes = {d.shape(0, 4)},
            .run = calls([k](In in) { return in[0] * k + 1; }, [k](In in) { return k - in[0]; },
                         [k](In in) { return in[0] >= k; },
                         [k](In in) { return clamp(in[0], std::min<int64_t>(k, 0), 2); }),
            .any_dtype = true};
  });
  add("where", [](Draw& d) -> Case {
    const Shape s = d.shape(0, 4);
    return {"where",
            {s, broadcastable_with(d, s), broadcastable_with(d, s)},
            calls([](In in) { return where(in[1] > 0, in[0], in[2]); },
                  [](In in) { return masked_fill(in[0], in[1] < 0, 2); })};
  });
  add("sums", [](Draw& d) -> Case {
    const Shape s = d.shape(0, 4);
    const Dims dims = some_dims(d, s);
    const bool keep = d.coin();
    return {
        "sums " + dims.str(),
        {s},
        calls([=](In in) { return sum(in[0], dims, keep); }, [=](In in) { return mean(in[0], dims, keep); },
              [=](In in) { return norm(in[0], dims, keep); },
              [=](In in) { return logsumexp(in[0], dims, keep); })};
  });
  add("spreads", [](Draw& d) -> Case {
    const Shape s = d.shape(1, 4);
    const Dims dims = some_dims(d, s);
    return {.text = "spreads " + dims.str(),
            .shapes = {s},
            .run = calls([=](In in) { return var(in[0], dims, 0); },
                         [=](In in) { return stddev(in[0] + 1, dims, 0, true); }),
            .distinct = true};
  });
  add("extremes", [](Draw& d) -> Case {
    const Shape s = d.shape(1, 4);
    const int dim = d.dim(s);
    const bool keep = d.coin();
    return {.text = "extremes " + std::to_string(dim),
            .shapes = {s},
            .run = calls(
                [=](In in) { return max(in[0], {dim}, keep); }, [=](In in) { return min(in[0], {dim}); },
                [=](In in) { return argmax(in[0], dim, keep); }, [=](In in) { return argmin(in[0], dim); }),
            .distinct = true};
  });
  add("cumsum", [](Draw& d) -> Case {
    const Shape s = d.shape(1, 3);
    const int dim = d.dim(s);
    return {"cumsum " + std::to_string(dim), {s}, calls([=](In in) { return cumsum(in[0], dim); })};
  });
  add("softmax", [](Draw& d) -> Case {
    const Shape s = d.shape(1, 4);
    const int dim = d.dim(s);
    return {
        "softmax " + std::to_string(dim),
        {s},
        calls([=](In in) { return softmax(in[0], dim); }, [=](In in) { return log_softmax(in[0], dim); })};
  });
  add("norms", [](Draw& d) -> Case {
    Shape s = d.shape(0, 3);
    s.push_back(d.from(2, 5) == 2 ? d.from(300, 1100) : 1 + d.some());
    const Shape c{s.back()};
    return {.text = "norms",
            .shapes = {s, c, c},
            .run = calls([](In in) { return layer_norm(in[0], in[1], in[2], 0.1); },
                         [](In in) { return rms_norm(in[0], in[1], 0.1); },
                         [](In in) { return layer_norm(in[0], {}, {}, 0.1); }),
            .distinct = true};
  });
  add("residual norms", [](Draw& d) -> Case {
    const Shape s{d.some(), 1 + d.some()}, c{s.back()};
    return {"residual norms",
            {s, s, c, c},
            calls([](In in) { return residual_layer_norm(in[0], in[1], in[2], in[3], 0.1).normalized; },
                  [](In in) { return residual_rms_norm(in[0], in[1], in[2], 0.1).sum; })};
  });
  add("matmul", [](Draw& d) -> Case {
    const int64_t M = d.size(), K = d.size(), N = d.size();
    Shape a = d.shape(0, 1), b = broadcastable_with(d, a);
    if (d.from(0, 3) > 0) a.push_back(M);
    const bool vector = a.empty() && b.empty() && d.coin();
    a.push_back(K), b.push_back(K);
    if (!vector) b.push_back(N);
    return {"matmul " + a.str() + " " + b.str(), {a, b}, calls([](In in) { return matmul(in[0], in[1]); })};
  });
  add("linear", [](Draw& d) -> Case {
    const int64_t K = d.size(), N = d.size();
    Shape x = d.shape(0, 2), y = x;
    x.push_back(K), y.push_back(N);
    const auto fn =
        d.one_of<Activation>({Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh});
    return {
        "linear",
        {x, {N, K}, {N}, y},
        calls([](In in) { return linear(in[0], in[1], in[2]); }, [](In in) { return linear(in[0], in[1]); },
              [=](In in) { return linear_activation(in[0], in[1], in[2], fn); },
              [](In in) { return linear_residual(in[0], in[1], in[2], in[3]); },
              [=](In in) { return bias_activation(in[3], in[2], fn); })};
  });
  add("conv2d", [](Draw& d) -> Case {
    const int64_t groups = d.from(1, 3), c = d.from(1, 4), m = d.from(1, 5), kh = d.from(1, 3),
                  kw = d.from(1, 3);
    const bool square = d.coin();
    const auto sides = [&](int64_t low, int64_t high) -> Size2d {
      const int64_t height = d.from(low, high);
      return {height, square ? height : d.from(low, high)};
    };
    const Conv2dOptions o{
        .stride = sides(1, 3), .padding = sides(0, 2), .dilation = sides(1, 2), .groups = groups};
    return {"conv2d",
            {{d.from(0, 3), c * groups, d.from(5, 14), d.from(5, 14)}, {m * groups, c, kh, kw}, {m * groups}},
            calls([=](In in) { return conv2d(in[0], in[1], in[2], o); })};
  });
  add("pools", [](Draw& d) -> Case {
    const int64_t k = d.from(1, 4), l = d.from(1, 4);
    const Pool2dOptions square{.kernel = k, .stride = d.from(0, 3), .padding = d.from(0, k / 2)};
    const Pool2dOptions sides{.kernel = {k, l},
                              .stride = {d.from(0, 3), d.from(0, 3)},
                              .padding = {d.from(0, k / 2), d.from(0, l / 2)},
                              .ceil_mode = d.coin()};
    const Pool2dOptions o = d.coin() ? square : sides;
    const int64_t h = d.from(1, 5), w = d.from(1, 5);
    return {
        .text = "pools",
        .shapes = {{d.from(0, 3), d.from(1, 5), d.from(4, 13), d.from(4, 13)}},
        .run = calls([=](In in) { return max_pool2d(in[0], o); }, [=](In in) { return avg_pool2d(in[0], o); },
                     [=](In in) { return adaptive_avg_pool2d(in[0], h, w); }),
        .distinct = true};
  });
  add("batch norms", [](Draw& d) -> Case {
    const int64_t C = d.from(1, 6) * 2;
    const Shape c{C};
    return {.text = "batch norms",
            .shapes = {{d.from(2, 4), C, d.from(1, 9), d.from(1, 9)}, c, c},
            .run = calls(
                [](In in) { return batch_norm_train(in[0], in[1], in[2], 0.1)[0]; },
                [](In in) { return batch_norm_infer(in[0], in[1], square(in[2]) + 1, in[1], in[2], 0.1); },
                [](In in) { return group_norm(in[0], 2, in[1], in[2], 0.1); }),
            .distinct = true};
  });
  add("shapes", [](Draw& d) -> Case {
    const Shape s = d.shape(1, 4);
    const int dim = d.dim(s);
    const int64_t n = s[dim < 0 ? dim + s.size() : dim], first = d.from(-n - 1, n),
                  last = d.from(-n - 1, n + 1), step = d.from(1, 3);
    return {.text = "shapes " + std::to_string(dim),
            .shapes = {s},
            .run = calls(
                [=](In in) { return slice(in[0], dim, first, last, step); },
                [=](In in) { return flip(in[0], {dim}); },
                [=](In in) { return transpose(in[0], dim, 0).contiguous(); },
                [=](In in) {
                  return reshape(in[0], {-1, 1});
                },
                [=](In in) {
                  return cat({in[0], in[0] * 2}, dim);
                },
                [=](In in) {
                  return stack({in[0], in[0]}, dim);
                },
                [=](In in) { return unsqueeze(in[0], dim).expand(unsqueeze(in[0], dim).shape()).clone(); }),
            .any_dtype = true};
  });
  add("pad, triangles", [](Draw& d) -> Case {
    const Shape s{d.size(), d.size(), d.size()};
    const int64_t k = d.from(-4, 4), a = d.from(0, 3), b = d.from(0, 3);
    return {.text = "pad, triangles",
            .shapes = {s},
            .run = calls(
                [=](In in) {
                  return pad(in[0], {{a, b}, {0, a}, {b, 0}}, 2);
                },
                [=](In in) { return tril(in[0], k); }, [=](In in) { return triu(in[0], k); }),
            .any_dtype = true};
  });
  add("indexing", [](Draw& d) -> Case {
    const Shape s = d.shape(1, 3);
    const int dim = d.dim(s), at = dim < 0 ? dim + s.size() : dim;
    Shape index = s;
    index[at] = d.size();
    const int64_t beyond = d.from(0, 9) == 0 ? 1 : 0;
    return {.text = "indexing " + std::to_string(dim),
            .shapes = {s, index},
            .run = calls([=](In in) { return gather(in[0], dim, in[2]); },
                         [=](In in) { return scatter_add(in[0], dim, in[2], in[1]); },
                         [=](In in) { return index_select(in[0], dim, in[3]); }),
            .indices = {{index, -beyond, s[at] - 1 + beyond}, {{d.size()}, 0, s[at] - 1}}};
  });
  add("embedding", [](Draw& d) -> Case {
    const int64_t V = d.some(), beyond = d.from(0, 9) == 0 ? 1 : 0;
    return {.text = "embedding",
            .shapes = {{V, d.size()}},
            .run = calls([](In in) { return embedding(in[0], in[1]); }),
            .indices = {{d.shape(0, 2), 0, V - 1 + beyond}}};
  });
  add("sort", [](Draw& d) -> Case {
    const Shape s = d.shape(1, 3);
    const int dim = d.dim(s);
    const bool descending = d.coin();
    const int64_t k = d.from(0, s[dim < 0 ? dim + s.size() : dim]);
    return {.text = "sort " + std::to_string(dim),
            .shapes = {s},
            .run =
                [=](In in) {
                  const auto sorted = sort(in[0], dim, descending), best = topk(in[0], k, dim, descending);
                  return Tensors{sorted.values, sorted.indices, best.values, best.indices};
                },
            .distinct = true};
  });
  add("cross_entropy", [](Draw& d) -> Case {
    const int64_t N = d.size(), V = d.some(), C = d.some(), beyond = d.from(0, 9) == 0 ? 1 : 0;
    const CrossEntropyOptions o{
        .ignore_index = 0, .label_smoothing = d.coin() ? 0.1 : 0, .reduction = Reduction::sum};
    return {.text = "cross_entropy",
            .shapes = {{N, V}, {N, C}, {V, C}},
            .run = calls([=](In in) { return cross_entropy(in[0], in[3], o); },
                         [=](In in) { return linear_cross_entropy(in[1] * 0.125, in[2], in[3], o); }),
            .indices = {{{N}, 0, V - 1 + beyond}}};
  });
  add("losses", [](Draw& d) -> Case {
    const Shape s = d.shape(0, 3);
    const auto r = d.one_of<Reduction>({Reduction::sum, Reduction::none});
    return {"losses",
            {s, s},
            calls([=](In in) { return mse_loss(in[0], in[1], r); },
                  [=](In in) { return bce_with_logits(in[0], sigmoid(in[1]), r); })};
  });
  add("attention", [](Draw& d) -> Case {
    const int64_t B = d.from(1, 2), G = d.from(1, 2), H = G * d.from(1, 2), T = d.from(1, 20),
                  S = T + d.from(0, 20), D = d.from(1, 5) * 8;
    AttentionOptions o{.causal = d.coin()};
    if (o.causal && d.coin()) o.window = d.from(1, 9);
    return {"attention", {{B, H, T, D}, {B, G, S, D}, {B, G, S, D}}, calls([=](In in) {
              return scaled_dot_product_attention(in[0] * 0.25, in[1] * 0.25, in[2], o);
            })};
  });
  add("casts", [](Draw& d) -> Case {
    return {.text = "casts",
            .shapes = {d.shape(0, 4)},
            .run = calls([](In in) { return in[0].to(f64).to(f32); }, [](In in) { return in[0].to(i32); }),
            .any_dtype = true};
  });
  return all;
}

// Multiples of 1/8, which every floating dtype represents exactly; integers are so small that no product
// overflows 8 bits.
std::vector<double> values_of(Draw& d, int64_t count, const Case& c, bool whole) {
  std::vector<double> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = whole ? static_cast<double>(d.from(-5, 5))
                   : 0.125 * static_cast<double>(c.positive ? d.from(4, 20) : d.from(-20, 20));
  }
  if (c.distinct && count < 256) {  // more distinct values do not exist in 16 bits
    for (size_t i = 0; i < out.size(); ++i) out[i] = (static_cast<double>(i) - 128) / 64;
    for (size_t i = out.size(); i > 1; --i)
      std::swap(out[i - 1], out[static_cast<size_t>(d.from(0, static_cast<int64_t>(i) - 1))]);
  }
  return out;
}

// Returns the same values in another memory layout.
Tensor laid_out(Draw& d, const Tensor& x) {
  const int64_t kind = d.from(0, 4);
  if (kind == 1 && x.rank() >= 2) return x.transpose(0, -1).contiguous().transpose(0, -1);
  if (kind == 2 && x.rank() >= 1) {  // every other element of a tensor twice as long
    return tt::stack({x, tt::zeros_like(x)}, x.rank()).flatten(x.rank() - 1).slice(-1, 0, tt::kEnd, 2);
  }
  if (kind == 3) {  // with an offset from the start of the storage
    return tt::cat({tt::zeros({1}, x.dtype(), x.device()), x.reshape({x.numel()})})
        .slice(0, 1)
        .reshape(x.shape());
  }
  if (kind == 4 && x.rank() == 4) return x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  return x;
}

struct Outcome {
  std::string error;  // error code, or empty
  Tensors results;    // f64 on the CPU; the gradients of the inputs are last
};

// Runs the case on `inputs`, and backward from a weighted sum of the floating results. Each weight, which is
// the gradient of one element of a result, is changed by a random share of up to `unit` of itself.
Outcome outcome_of(const Case& c, Tensors inputs, uint64_t seed, double unit = 0, uint64_t change = 0) {
  Outcome out;
  tt::Generator changes(change);
  try {
    const size_t real = c.shapes.size();
    for (size_t i = 0; i < real; ++i) {
      if (tt::is_floating(inputs[i].dtype())) inputs[i].requires_grad_();
    }
    Tensors all = c.run(inputs);
    tt::Generator weights(seed);
    Tensor total;
    for (const Tensor& t : all) {
      if (!t.requires_grad()) continue;
      Tensor w =
          (tt::randint(-8, 9, t.shape(), tt::i64, tt::cpu, weights).to(t.dtype()) * 0.125).to(t.device());
      if (unit > 0) w = w * (tt::rand(t.shape(), t.dtype(), tt::cpu, changes) * (2 * unit) + (1 - unit));
      const Tensor part = tt::sum((t * w).to(tt::f64));
      total = total.defined() ? total + part : part;
    }
    for (const Tensor& t : all) out.results.push_back(t.detach().to(tt::cpu).to(tt::f64));
    if (total.defined()) total.backward();
    for (size_t i = 0; i < real; ++i) {
      const Tensor g = inputs[i].grad();
      out.results.push_back(g.defined() ? g.to(tt::cpu).to(tt::f64) : Tensor());
    }
    if (inputs[0].device().is_cuda())
      tt::backend::cuda::synchronize();  // throws the errors that kernels found
  } catch (const tt::Error& e) {
    out.error = e.code();
    out.results.clear();
  }
  return out;
}

double tolerance(DType t) {
  switch (t) {
    case DType::bf16:
      return 0x1p-4;
    case DType::f16:
      return 0x1p-7;
    case DType::f32:
      return 0x1p-15;
    default:
      return 0x1p-40;
  }
}

// A gradient of an operand that was broadcast is a sum of many rounded products. If products of both signs
// cancel, the sum is much less exact than its size suggests. Returns for each result how far it moves, as a
// root mean square of several runs in double precision, if the gradients of the case's results are changed by
// what one rounding to the dtype changes: the function itself stays the same, so results do not move.
std::vector<std::vector<double>> moves_by_rounding(const Case& c, const Tensors& plain, const Outcome& want,
                                                   uint64_t seed, DType dtype) {
  constexpr int kRuns = 8;
  const double unit = dtype == tt::bf16  ? 0x1p-8
                      : dtype == tt::f16 ? 0x1p-11
                      : dtype == tt::f32 ? 0x1p-24
                                         : 0;
  std::vector<std::vector<double>> squares(want.results.size());
  for (int run = 0; run < kRuns && unit > 0; ++run) {
    Tensors inputs;
    for (const Tensor& x : plain) inputs.push_back(x.detach().clone());
    const Outcome moved = outcome_of(c, inputs, seed, unit, seed + 1 + static_cast<uint64_t>(run));
    for (size_t i = 0; i < squares.size(); ++i) {
      if (!want.results[i].defined()) continue;
      const auto from = want.results[i].to_vector<double>(), to = moved.results[i].to_vector<double>();
      squares[i].resize(from.size());
      for (size_t e = 0; e < from.size(); ++e) squares[i][e] += (to[e] - from[e]) * (to[e] - from[e]) / kRuns;
    }
  }
  for (auto& of_result : squares) {
    for (double& square : of_result) square = std::sqrt(square);
  }
  return squares;
}

// Describes a difference above the tolerance, which is relative to the largest value, or `moves` times a few
// if that is given; "" if there is none.
std::string difference(const Tensor& got, const Tensor& want, DType dtype,
                       const std::vector<double>& moves = {}) {
  const double relative = tolerance(dtype);
  if (got.defined() != want.defined()) return "one is undefined";
  if (!got.defined()) return "";
  if (got.shape() != want.shape()) return got.shape().str() + " instead of " + want.shape().str();
  const std::vector<double> g = got.to_vector<double>(), w = want.to_vector<double>();
  // Beyond this size, rounding to the dtype gives infinity.
  const double largest = dtype == tt::f16 ? 65504 : dtype == tt::f64 ? 0x1p1023 : 0x1.fep127;
  double scale = 1;
  for (const double v : w) scale = std::isfinite(v) ? std::max(scale, std::abs(v)) : scale;
  for (size_t i = 0; i < g.size(); ++i) {
    if (g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]))) continue;
    const bool overflows = std::isinf(g[i]) && (g[i] > 0) == (w[i] > 0);
    if (overflows && std::abs(w[i]) * (1 + relative) >= largest) continue;
    const double cancelled = i < moves.size() && std::isfinite(moves[i]) ? 8 * moves[i] : 0;
    if (!(std::abs(g[i] - w[i]) <= std::max(relative * scale, cancelled))) {
      return "element " + std::to_string(i) + " of " + got.shape().str() + " is " + std::to_string(g[i]) +
             " instead of " + std::to_string(w[i]);
    }
  }
  return "";
}

int64_t number_of(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoll(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("random calls agree with double precision, in every dtype and layout") {
  const std::vector<Family> all = family_cases();
  const int64_t alone = number_of("TINYTORCH_TEST_CASE", -1);
  const int64_t first =
      alone >= 0 ? alone : static_cast<int64_t>(test::drawn_number(0) % 1'000'000'000) * 1000;
  const int64_t count = alone >= 0 ? 1
                                   : number_of("TINYTORCH_TEST_CASES", test::few_on_emulator() ? 30
                                                                       : test::few_asked()     ? 300
                                                                                               : 3000);
  int64_t refused = 0;
  for (int64_t number = first; number < first + count; ++number) {
    Draw d(static_cast<uint64_t>(number));
    const Family family = d.one_of(all);
    const Case c = family.make(d);
    const DType dtype = d.one_of<DType>(
        c.any_dtype ? std::vector<DType>{tt::f32, tt::f64, tt::bf16, tt::f16, tt::i32, tt::i64, tt::i8}
                    : std::vector<DType>{tt::f32, tt::f64, tt::bf16, tt::f16});
    const bool whole = !tt::is_floating(dtype);
    Tensors plain, drawn;
    std::string shapes;
    for (const Shape& s : c.shapes) {
      const Tensor x = tt::from_data(values_of(d, s.numel(), c, whole)).to(tt::cpu).reshape(s);
      plain.push_back(whole ? x.to(tt::i64) : x);
      drawn.push_back(laid_out(d, x.clone().to(dtype).to(tt::default_device())).detach());
      shapes += " " + s.str();
    }
    for (const Case::Index& i : c.indices) {
      tt::Generator generator(static_cast<uint64_t>(number));
      const bool empty = i.high < i.low;  // no index is valid
      const Tensor x = empty ? tt::zeros(i.shape, tt::i64, tt::cpu)
                             : tt::randint(i.low, i.high + 1, i.shape, tt::i64, tt::cpu, generator);
      plain.push_back(x);
      drawn.push_back(laid_out(d, x.clone().to(tt::default_device())));
      shapes += " " + i.shape.str();
    }
    const Outcome want = outcome_of(c, plain, static_cast<uint64_t>(number)),
                  got = outcome_of(c, drawn, static_cast<uint64_t>(number));
    refused += !want.error.empty();
    INFO("TINYTORCH_TEST_CASE=", number, ": ", family.name, ", ", c.text, ", ",
         std::string(tt::name_of(dtype)), shapes);
    CHECK(got.error == want.error);
    CHECK(got.results.size() == want.results.size());
    for (size_t i = 0; i < std::min(got.results.size(), want.results.size()); ++i) {
      INFO("result ", i);
      std::string text = difference(got.results[i], want.results[i], dtype);
      if (!text.empty()) {
        const auto moves = moves_by_rounding(c, plain, want, static_cast<uint64_t>(number), dtype);
        text = difference(got.results[i], want.results[i], dtype, moves[i]);
      }
      CHECK(text == "");
    }
  }
  if (alone < 0) CHECK(refused < count / 4);
}
