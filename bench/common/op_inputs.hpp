// Tensors on which bench_ops times operations. bench/peers/ops_torch.py has tensors of the same names and
// shapes.
//
// A size n means n elements: vectors [n], and matrices [R, C] with R C = n and C <= 1024. If n is 1024 times
// a power of four, square matrices [S, S] have exactly n elements. Images are [images, channels, 32, 32] with
// n elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <tinytorch/tinytorch.hpp>

namespace bench {

namespace tt = tinytorch;
using tt::Tensor;

// Attention of GPT-2 124M: 12 heads, 1024 tokens, 64 features per head. `queries`, `keys` and `values` exist
// at this size only.
inline constexpr int64_t kHeadsSize = 12 * 1024 * 64;

class Inputs {
 public:
  int64_t n, cols, rows;

  explicit Inputs(int64_t count) : n(count) {
    const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(n))));
    cols = std::min<int64_t>(1024, side);
    rows = n / cols;
    const int64_t channels = n >= 16 * 1024 ? 16 : 1, images = std::max<int64_t>(1, n / (channels * 1024));
    std::map<std::string, Tensor>& t = tensors_;
    t["x"] = tt::randn({n}), t["y"] = tt::randn({n}), t["positive"] = tt::rand({n}) + 0.5;
    t["half"] = t["x"].to(tt::bf16);
    t["m"] = tt::randn({rows, cols}), t["k"] = tt::randn({rows, cols});
    t["positive_m"] = t["positive"].slice(0, 0, rows * cols).reshape({rows, cols});
    t["flags"] = tt::randn({rows, cols}) > 0;
    t["row"] = tt::randn({cols}), t["column"] = tt::randn({rows, 1});
    t["integers"] = tt::randint(0, cols, {rows, cols}), t["class_of"] = tt::randint(0, cols, {rows});
    t["row_index"] = tt::randint(0, rows, {rows}), t["column_index"] = tt::randint(0, rows, {rows, cols});
    t["square"] = tt::randn({side, side}), t["other"] = tt::randn({side, side});
    t["square_t"] = t["square"].t(), t["other_t"] = t["other"].t(), t["other_row"] = t["other"][0];
    t["weight"] = tt::randn({cols, cols});
    t["image"] = tt::randn({images, channels, 32, 32}), t["filter"] = tt::randn({channels, channels, 3, 3});
    t["image_nhwc"] = t["image"].permute({0, 2, 3, 1});
    t["filter_bias"] = tt::randn({channels}), t["channel"] = tt::randn({channels});
    t["channel_positive"] = tt::rand({channels}) + 0.5;
    if (n == kHeadsSize) {
      const auto heads = [&](const char* name) { return t[name].reshape({1, 12, 1024, 64}); };
      t["queries"] = heads("x"), t["keys"] = heads("y"), t["values"] = heads("positive");
    }
  }

  const Tensor& operator[](const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      throw std::invalid_argument("bench::Inputs has no tensor '" + name +
                                  "' at this size; common/op_inputs.hpp lists all");
    return found->second;
  }

 private:
  std::map<std::string, Tensor> tensors_;
};

}  // namespace bench
