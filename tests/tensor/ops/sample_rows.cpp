// The kernels have tests of their own (backend/cpu/sample_rows.cpp); here, how tensors get there.
#include <tinytorch/tensor/ops/sample_rows.hpp>

#include <support/errors.hpp>
#include <tinytorch/profiling/cost.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

tt::ValuesAndIndices best_of(const tt::Tensor& logits) {
  const tt::ValuesAndIndices best = tt::topk(logits, 1);
  return {best.values.select(1, 0), best.indices.select(1, 0)};
}

}  // namespace

TEST_CASE("a row has the choice of its own, whatever the strides of the logits") {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const std::vector<float> one = {1, 0.5F, 0.25F, 0.25F};
  const tt::Tensor row = tt::log(tt::from_data(one)), logits = tt::stack({row, row, row, row, row});
  const tt::Tensor choices =
      tt::from_data(std::vector<double>{1, 0,    1, 0, 0.6, 1, 0,    1, 0, 0.99, 0, 0,   1,
                                        0, 0.99, 1, 1, 1,   0, 0.99, 1, 0, 0.7,  0, 0.99},
                    {5, 5});
  const std::vector<int64_t> wanted = {1, 3, 0, 0, 1};
  CHECK(tt::sample_rows(logits, best_of(logits), choices).to_vector<int64_t>() == wanted);
  const tt::Tensor columns = logits.transpose(0, 1).contiguous().transpose(0, 1);
  CHECK(tt::sample_rows(columns, best_of(columns), choices).to_vector<int64_t>() == wanted);
  const tt::Tensor wide = tt::slice(tt::cat({logits, logits + 9}, 1), 1, 0, 4);
  CHECK(tt::sample_rows(wide, best_of(wide), choices).to_vector<int64_t>() == wanted);
  const tt::Tensor spread = choices.transpose(0, 1).contiguous().transpose(0, 1);
  CHECK(tt::sample_rows(logits.to(tt::f64), best_of(logits.to(tt::f64)), spread).to_vector<int64_t>() ==
        wanted);
}

TEST_CASE("operands that do not fit are refused") {
  const tt::Tensor logits = tt::zeros({3, 4}), choices = tt::zeros({3, 5}, tt::f64);
  const tt::ValuesAndIndices best = best_of(logits);
  const auto refused = [](const tt::Tensor& x, const tt::ValuesAndIndices& b, const tt::Tensor& c) {
    return errors::thrown_by([&] { (void)tt::sample_rows(x, b, c); }).code;
  };
  CHECK(refused(tt::zeros({4}), best, choices) == "TT-SHAPE-02");
  CHECK(refused(tt::zeros({3, 0}), best, choices) == "TT-SHAPE-02");
  CHECK(refused(logits, best, tt::zeros({2, 5}, tt::f64)) == "TT-SHAPE-02");
  CHECK(refused(logits, best, tt::zeros({3, 5})) == "TT-SHAPE-02");
  CHECK(refused(logits, {best.values, best.indices.to(tt::i32)}, choices) == "TT-SHAPE-02");
  CHECK(refused(logits, {best.values.to(tt::f64), best.indices}, choices) == "TT-SHAPE-02");
  CHECK(refused(logits.to(tt::i64), best, choices) == "TT-DTYPE-02");
  CHECK(refused(tt::Tensor(), best, choices) != "");
}
