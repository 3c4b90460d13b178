// Cases of the reductions, for backend/cpu/reduce and tensor/ops/reduce. n is the number of reduced elements
// unless stated otherwise.
#pragma once

#include <algorithm>
#include <limits>
#include <support/op_case.hpp>

namespace cases {

using Group = std::vector<double>;

inline double sum_of(const Group& v) {
  long double s = 0;  // more precise than f64, so that the oracle's rounding does not matter
  for (double x : v) s += x;
  return static_cast<double>(s);
}
inline double mean_of(const Group& v) { return sum_of(v) / static_cast<double>(v.size()); }
inline double prod_of(const Group& v) {
  double p = 1;
  for (double x : v) p *= x;
  return p;
}
inline double max_of(const Group& v) { return *std::max_element(v.begin(), v.end()); }
inline double min_of(const Group& v) { return *std::min_element(v.begin(), v.end()); }
inline double var_of(const Group& v, int64_t correction) {
  const double m = mean_of(v);
  double s = 0;
  for (double x : v) s += (x - m) * (x - m);
  return s / std::max(0.0, static_cast<double>(v.size()) - static_cast<double>(correction));
}

using ReduceCall = std::function<Tensor(const Tensor&, const Dims&, bool keepdim)>;

// The reduced dimensions of a shape: all, the last (rows), the first (columns), the outer two.
struct ReduceForm {
  const char* suffix;
  std::function<Shape(int64_t)> shape;
  Dims dims;
  bool keepdim;
};
inline std::vector<ReduceForm> reduce_forms() {
  return {{" all", mat(), {}, false},
          {" rows",
           [](int64_t n) {
             return Shape{3, n};
           },
           {-1},
           false},
          {" columns",
           [](int64_t n) {
             return Shape{n, 5};
           },
           {0},
           true},
          {" many columns",
           [](int64_t n) {
             return Shape{2, n, 600};
           },
           {1},
           false},
          {" outer and inner",
           [](int64_t n) {
             return Shape{n, 2, 3};
           },
           {2, 0},
           true}};
}

inline void add_reduction(std::vector<OpCase>& all, const std::string& name, const ReduceCall& call,
                          const std::function<double(const Group&)>& f, double flops,
                          const std::function<void(OpCase&)>& change) {
  for (const ReduceForm& form : reduce_forms()) {
    OpCase c;
    c.name = name + form.suffix;
    c.operands = {{.shape = form.shape}};
    c.forward = [=](const Tensors& in) { return call(in[0], form.dims, form.keepdim); };
    c.oracle = [=](const std::vector<Array>& in) { return oracle::fold(in[0], form.dims, form.keepdim, f); };
    if (flops > 0) {
      c.flops = [flops](const std::vector<Array>& in, const Array&) {
        return flops * static_cast<double>(in[0].values.size());
      };
    }
    c.ulps = 16;  // f64 adds some hundred values sequentially
    c.sizes = {0, 1, 2, 7, 64, 65, 129};
    c.gradient_sizes = {1, 2, 3};
    if (form.shape(1).back() > 100) c.sizes = {0, 1, 33, 70}, c.gradient_sizes = {};
    change(c);
    all.push_back(c);
  }
}

inline std::vector<OpCase> reduce_cases() {
  std::vector<OpCase> all;
  const auto widened = [](OpCase& c) {
    c.dtypes = kAnything;
    c.result = ResultType::widened;
  };
  add_reduction(
      all, "sum", [](const Tensor& x, const Dims& d, bool k) { return tt::sum(x, d, k); }, sum_of, 1,
      widened);
  add_reduction(
      all, "prod", [](const Tensor& x, const Dims& d, bool k) { return tt::prod(x, d, k); }, prod_of, 1,
      [&](OpCase& c) {
        widened(c);
        c.dtypes = {tt::f32, tt::f64, tt::bf16, tt::boolean};
        c.operands[0].low = 0.7, c.operands[0].high = 1.4;
        const auto exact = c.oracle;
        c.oracle = [exact](const std::vector<Array>& in) {
          Array out = exact(in);
          const double n = static_cast<double>(in[0].values.size()) /
                           std::max(1.0, static_cast<double>(out.values.size()));
          for (size_t i = 0; i < out.values.size(); ++i)
            out.magnitude[i] = out.values[i] * n;  // the product has n roundings
          return out;
        };
        c.ulps = 1;
      });
  add_reduction(
      all, "mean", [](const Tensor& x, const Dims& d, bool k) { return tt::mean(x, d, k); }, mean_of, 1,
      [](OpCase&) {});
  const auto extreme = [](OpCase& c) {
    c.dtypes = kAnything;
    c.operands[0].distinct = true;
    c.sizes.erase(c.sizes.begin());  // no elements have no extreme value
    c.ulps = 0;
  };
  add_reduction(
      all, "max", [](const Tensor& x, const Dims& d, bool k) { return tt::max(x, d, k); }, max_of, 1,
      extreme);
  add_reduction(
      all, "min", [](const Tensor& x, const Dims& d, bool k) { return tt::min(x, d, k); }, min_of, 1,
      extreme);
  const auto truth = [](OpCase& c) {
    c.dtypes = kAnything;
    c.result = ResultType::boolean;
    c.differentiable = false;
  };
  add_reduction(
      all, "any", [](const Tensor& x, const Dims& d, bool k) { return tt::any(x, d, k); },
      [](const Group& v) { return double(std::any_of(v.begin(), v.end(), [](double x) { return x != 0; })); },
      1, truth);
  add_reduction(
      all, "all", [](const Tensor& x, const Dims& d, bool k) { return tt::all(x, d, k); },
      [](const Group& v) { return double(std::all_of(v.begin(), v.end(), [](double x) { return x != 0; })); },
      1, truth);
  for (const int64_t correction : {0, 1}) {
    add_reduction(
        all, "var correction " + std::to_string(correction),
        [=](const Tensor& x, const Dims& d, bool k) { return tt::var(x, d, correction, k); },
        [=](const Group& v) { return var_of(v, correction); }, 0,
        [&](OpCase& c) {
          if (correction == 1 && !c.gradient_sizes.empty()) c.gradient_sizes = {2, 3};
        });
    add_reduction(
        all, "stddev correction " + std::to_string(correction),
        [=](const Tensor& x, const Dims& d, bool k) { return tt::stddev(x, d, correction, k); },
        [=](const Group& v) { return std::sqrt(var_of(v, correction)); }, 0,
        [](OpCase& c) {
          c.roundings = 2;  // of the variance, and of its square root
          if (!c.gradient_sizes.empty()) c.gradient_sizes = {2, 3};
        });
  }
  add_reduction(
      all, "norm", [](const Tensor& x, const Dims& d, bool k) { return tt::norm(x, d, k); },
      [](const Group& v) {
        double s = 0;
        for (double x : v) s += x * x;
        return std::sqrt(s);
      },
      2, [](OpCase&) {});
  return all;
}

// The position of the first extreme value along `dim`.
inline Array arg_oracle(const Array& x, int dim, bool largest) {
  return oracle::fold(x, {dim}, false, [=](const Group& v) {
    const auto at = largest ? std::max_element(v.begin(), v.end()) : std::min_element(v.begin(), v.end());
    return static_cast<double>(at - v.begin());
  });
}

inline std::vector<OpCase> arg_cases() {
  std::vector<OpCase> all;
  for (const bool largest : {true, false}) {
    for (const int dim : {0, 1, 2}) {
      OpCase c;
      c.name = std::string(largest ? "argmax" : "argmin") + " dim " + std::to_string(dim);
      c.operands = {{.shape = [=](int64_t n) {
        Shape s{2, 3, 4};
        s[dim] = n;
        return s;
      }}};
      c.forward = [=](const Tensors& in) {
        return largest ? tt::argmax(in[0], dim) : tt::argmin(in[0], dim - 3);
      };
      c.oracle = [=](const std::vector<Array>& in) { return arg_oracle(in[0], dim, largest); };
      c.dtypes = kAnything;
      c.result = ResultType::i64;
      c.differentiable = false;
      c.sizes = {1, 2, 31, 65, 1025, 2049};
      c.flops = [](const std::vector<Array>& in, const Array&) {
        return static_cast<double>(in[0].values.size());
      };
      all.push_back(c);
    }
  }
  return all;
}

inline std::vector<OpCase> cumsum_cases() {
  std::vector<OpCase> all;
  for (const int dim : {0, 1, 2}) {
    OpCase c;
    c.name = "cumsum dim " + std::to_string(dim);
    c.operands = {{.shape = [=](int64_t n) {
      Shape s{2, 3, 2};
      s[dim] = n;
      return s;
    }}};
    c.forward = [=](const Tensors& in) { return tt::cumsum(in[0], dim - 3); };
    c.oracle = [=](const std::vector<Array>& in) {
      Array out = in[0];
      out.magnitude.assign(out.values.size(), 0);
      oracle::for_each_index(out.shape, [&](Dims i) {
        const size_t at = out.position(i);
        out.magnitude[at] = std::abs(in[0](i));
        if (i[dim] == 0) return;
        i[dim] -= 1;
        out.values[at] += out(i);
        out.magnitude[at] += out.magnitude[out.position(i)];
      });
      return out;
    };
    c.dtypes = kAnything;
    c.result = ResultType::widened;
    c.flops = [](const std::vector<Array>& in, const Array&) {
      return static_cast<double>(in[0].values.size());
    };
    all.push_back(c);
  }
  OpCase to;
  to.name = "sum_to";
  to.operands = {{.shape = [](int64_t n) { return Shape{2, n, 3}; }}};
  to.forward = [](const Tensors& in) { return tt::sum_to(in[0], {in[0].shape()[1], 1}); };
  to.oracle = [](const std::vector<Array>& in) {
    Array out = oracle::fold(in[0], {0, 2}, true, sum_of);
    out.shape = {in[0].shape[1], 1};
    return out;
  };
  to.sizes = {0, 2, 7, 33};
  all.push_back(to);
  return all;
}

// Reductions as calls: whole tensors, rows, columns, outer dimensions.
// clang-format off
inline std::vector<OpCase> reduce_calls() {
  return {
      OP("x.sum()", sum(x)).bench("x").bench("half", "sum bf16"),
      OP("x.sum(-1, keepdim=True)", sum(x, {-1}, true)),
      OP("x.sum(0)", sum(x, {0})).bench("m", "sum columns"),
      OP("x.sum(1)", sum(x, {1})).bench("m", "sum rows").bench_grad("m", "sum rows"),
      OP("x.sum((0, 2))", sum(x, {0, 2})),
      OP("x.mean()", mean(x)).bench("x"),
      OP("x.mean(-1, keepdim=True)", mean(x, {-1}, true)),
      OP("x.mean(0)", mean(x, {0})),
      OP("x.mean(1)", mean(x, {1})).bench("m", "mean rows"),
      OP("x.mean((0, 2))", mean(x, {0, 2})),
      OP("x.amax()", max(x)).bench("x"),
      OP("x.amax(-1, keepdim=True)", max(x, {-1}, true)),
      OP("x.amax(0)", max(x, {0})).bench("m", "max columns"),
      OP("x.amax(1)", max(x, {1})).bench("m", "max rows"),
      OP("x.amax((0, 2))", max(x, {0, 2})),
      OP("x.amin()", min(x)).bench("x"),
      OP("x.amin(-1, keepdim=True)", min(x, {-1}, true)),
      OP("x.amin(0)", min(x, {0})).bench("m", "min columns"),
      OP("x.amin(1)", min(x, {1})).bench("m", "min rows"),
      OP("x.amin((0, 2))", min(x, {0, 2})),
      OP("x.logsumexp(tuple(range(x.dim())))", logsumexp(x)),
      OP("x.logsumexp(-1, keepdim=True)", logsumexp(x, {-1}, true)),
      OP("x.logsumexp(0)", logsumexp(x, {0})),
      OP("x.logsumexp(1)", logsumexp(x, {1})).bench("m", "logsumexp rows"),
      OP("x.logsumexp((0, 2))", logsumexp(x, {0, 2})),
      OP("torch.linalg.vector_norm(x)", norm(x)).bench("x"),
      OP("torch.linalg.vector_norm(x, dim=-1, keepdim=True)", norm(x, {-1}, true)),
      OP("torch.linalg.vector_norm(x, dim=0)", norm(x, {0})).bench("m", "norm columns"),
      OP("torch.linalg.vector_norm(x, dim=1)", norm(x, {1})).bench("m", "norm rows"),
      OP("torch.linalg.vector_norm(x, dim=(0, 2))", norm(x, {0, 2})),
      OP("x.prod()", prod(x)).bench("positive"),
      OP("x.prod(-1, keepdim=True)", prod(x, {-1}, true)),
      OP("x.prod(1)", prod(x, {1})).bench("positive_m", "prod rows"),
      OP("torch.any(x)", any(x)).bench("flags"),
      OP("torch.any(x, 1)", any(x, {1})).bench("flags", "any rows"),
      OP("torch.any(x, 0)", any(x, {0})).bench("flags", "any columns"),
      OP("torch.any(x, 0, keepdim=True)", any(x, {0}, true)),
      OP("torch.all(x)", all(x)).bench("flags"),
      OP("torch.all(x, 1)", all(x, {1})).bench("flags", "all rows"),
      OP("torch.all(x, 0)", all(x, {0})),
      OP("torch.all(x, 0, keepdim=True)", all(x, {0}, true)),
      OP("torch.var(x)", var(x)).bench("x"),
      OP("torch.var(x, -1, correction=0, keepdim=True)", var(x, {-1}, 0, true)),
      OP("torch.var(x, (0, 2))", var(x, {0, 2})),
      OP("torch.var(x, 0)", var(x, {0})).bench("m", "var columns"),
      OP("torch.var(x, 1)", var(x, {1})).bench("m", "var rows"),
      OP("torch.std(x)", stddev(x)),
      OP("torch.std(x, -1, correction=0, keepdim=True)", stddev(x, {-1}, 0, true)),
      OP("torch.std(x, (0, 2))", stddev(x, {0, 2})),
      OP("torch.std(x, 0)", stddev(x, {0})),
      OP("torch.std(x, 1)", stddev(x, {1})).bench("m", "stddev rows"),
      OP("x.argmax(-1)", argmax(x, -1)),
      OP("x.argmax(0, keepdim=True)", argmax(x, 0, true)),
      OP("x.argmax(1)", argmax(x, 1)).bench("m", "argmax rows"),
      OP("x.argmax(0)", argmax(x, 0)).bench("m", "argmax columns"),
      OP("x.argmin(-1)", argmin(x, -1)),
      OP("x.argmin(0, keepdim=True)", argmin(x, 0, true)),
      OP("x.argmin(1)", argmin(x, 1)).bench("m", "argmin rows"),
      OP("x.argmin(0)", argmin(x, 0)).bench("m", "argmin columns"),
      OP("x.cumsum(-1)", cumsum(x, -1)),
      OP("x.cumsum(0)", cumsum(x, 0)).bench("x").bench("m", "cumsum columns"),
      OP("x.cumsum(1)", cumsum(x, 1)).bench("m", "cumsum rows"),
      OP("x.sum((0, 1), keepdim=True)[0]", sum_to(x, {1, 3})),
      OP("x.sum_to_size(y.shape)", sum_to(x, y.shape())).bench("m row"),
  };
}
// clang-format on

}  // namespace cases
