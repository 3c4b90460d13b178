#include <08_pruning/checks/weights.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/pruning/masks.hpp>

using namespace course;

namespace {

// A parameter [rows, columns] whose gradient does not depend on its values: the loss is the sum of w times
// numbers of a step. So each element is trained as if it were alone.
struct Alone {
  Tensor w;
  explicit Alone(const Numbers& values, const Shape& shape, DType dtype = f32)
      : w(of_numbers(values, shape).to(dtype)) {
    w.requires_grad_();
  }
  NamedTensors named() const { return {{"w", w}}; }
  void step(Optimizer& optimizer, const Numbers& slope, bool clipped = false) {
    optimizer.zero_grad();
    sum(w * of_numbers(slope, w.shape()).to(w.dtype())).backward();
    if (clipped)
      (void)optimizer.step_clipped(1e9);
    else
      optimizer.step();
  }
};
std::unique_ptr<Optimizer> optimizer_of(bool adam, const NamedTensors& parameters) {
  if (adam) return std::make_unique<AdamW>(parameters, AdamOptions{.lr = 0.05});
  SgdOptions o;
  o.lr = 0.05, o.momentum = 0.9, o.weight_decay = 0.1;
  return std::make_unique<SGD>(parameters, o);
}
Tensor mask_of(const Numbers& keep, const Shape& shape) { return gt(of_numbers(keep, shape), zeros(shape)); }
Numbers every_third(size_t n) {
  Numbers keep(n, 1);
  for (size_t i = 0; i < n; i += 3) keep[i] = 0;
  return keep;
}

}  // namespace

TEST_CASE("8.2 a mask sets what it removes to 0, also a NaN, and changes nothing else") {
  const Alone p({1, static_cast<double>(NAN), 3, -4, INFINITY, 6}, {2, 3});
  PruningMasks masks;
  masks.prune({"w", p.w}, mask_of({1, 0, 1, 0, 0, 1}, {2, 3}));
  expect_close("{1, NaN, 3}, {-4, inf, 6} after the mask {1, 0, 1}, {0, 0, 1}", numbers(p.w),
               {1, 0, 3, 0, 0, 6}, {2, 3});
  expect_mask("the mask by its name", masks.find("w"), {1, 0, 1, 0, 0, 1}, {2, 3});
  expect("a parameter without a mask has none", !masks.find("other").defined());
  expect_equal("the share that is removed", masks.sparsity(), 0.5);
}

TEST_CASE("8.2 zeros stay zero through Adam and SGD, whose momentum and decay would move them") {
  for (const bool adam : {true, false}) {
    for (const DType dtype : {f32, bf16}) {
      const Numbers start = normal(24), keep = every_third(24);
      Alone p(start, {4, 6}, dtype), free(start, {4, 6}, dtype);
      const auto ours = optimizer_of(adam, p.named()), other = optimizer_of(adam, free.named());
      for (int i = 0; i < 3; ++i) {  // momentum builds up
        const Numbers slope = normal(24);
        p.step(*ours, slope), free.step(*other, slope);
      }
      PruningMasks masks;
      masks.prune({"w", p.w}, mask_of(keep, {4, 6}));
      masks.keep_in(*ours);
      const std::string what =
          std::string(adam ? "AdamW, " : "SGD with momentum and decay, ") + name_of(dtype);
      for (int i = 0; i < 5; ++i) {
        const Numbers slope = normal(24);
        p.step(*ours, slope, i == 2), free.step(*other, slope, i == 2);
        expect(what + ": after step " + shown(i + 1) +
                   " the removed are 0, the kept have the bits of training without a mask",
               numbers(p.w) == times(numbers(free.w), keep));
      }
    }
  }
}

TEST_CASE("8.2 the state of the optimizer forgets removed elements") {
  for (const bool adam : {true, false}) {
    const Numbers keep = every_third(24);
    Alone p(normal(24), {4, 6}, bf16);
    const auto optimizer = optimizer_of(adam, p.named());
    p.step(*optimizer, normal(24));
    PruningMasks masks;
    masks.prune({"w", p.w}, mask_of(keep, {4, 6}));
    masks.keep_in(*optimizer);
    p.step(*optimizer, normal(24));
    int64_t parts = 0;
    for (const auto& [name, state] : optimizer->state_dict()) {
      if (!(state.shape() == p.w.shape())) continue;
      ++parts;
      const Numbers values = numbers(state);
      expect("'" + name + "' is 0 where the parameter is removed", values == times(values, keep));
      expect("'" + name + "' is not 0 everywhere", count_of(values) == count_of(keep));
    }
    expect("the state has tensors of the parameter's shape", parts >= 1);
  }
}

TEST_CASE("8.2 masks only shrink: an element that was removed does not come back") {
  Alone p(Numbers(6, 2), {6});
  PruningMasks masks;
  masks.prune({"w", p.w}, mask_of({1, 0, 1, 1, 0, 1}, {6}));
  masks.prune({"w", p.w}, mask_of({1, 1, 0, 1, 1, 1}, {6}));
  expect_mask("{1, 0, 1, 1, 0, 1}, then {1, 1, 0, 1, 1, 1}", masks.find("w"), {1, 0, 0, 1, 0, 1}, {6});
  expect_close("its parameter", numbers(p.w), {2, 0, 0, 2, 0, 2}, {6});
  expect_equal("one mask", masks.size(), int64_t{1});
}

TEST_CASE("8.2 a mask that is added or grows later is kept by the same optimizer") {
  Alone p(Numbers(6, 2), {6});
  const auto optimizer = optimizer_of(true, p.named());
  {
    PruningMasks masks;
    masks.keep_in(*optimizer);
    p.step(*optimizer, Numbers(6, 1));
    masks.prune({"w", p.w}, mask_of({0, 1, 1, 1, 1, 1}, {6}));
    p.step(*optimizer, Numbers(6, 1));
    expect_equal("kept after the first mask", count_of(numbers(p.w)), 5.0);
    masks.prune({"w", p.w}, mask_of({1, 1, 1, 0, 0, 1}, {6}));
  }
  for (int i = 0; i < 3; ++i) p.step(*optimizer, Numbers(6, 1));
  expect_equal("kept after the second, and after the masks' own object is gone", count_of(numbers(p.w)), 3.0);
}

TEST_CASE("8.2 the mask that was given may change later, and belongs to nobody") {
  Alone p(Numbers(4, 2), {4});
  const Tensor given = mask_of({1, 0, 1, 1}, {4});
  PruningMasks masks;
  masks.prune({"w", p.w}, given);
  given.detach().copy_(mask_of({0, 0, 0, 0}, {4}));
  masks.apply();
  expect_equal("kept", count_of(numbers(p.w)), 3.0);
  masks.prune({"w", p.w}, mask_of({1, 1, 1, 0}, {4}));
  expect_equal("the given mask is not written", count_of(numbers(given)), 0.0);
}

TEST_CASE("8.2 rewind: the kept elements return to early values, the removed stay 0") {
  Alone p({1, 2, 3, 4}, {4});
  PruningMasks masks;
  masks.prune({"w", p.w}, mask_of({1, 0, 0, 1}, {4}));
  masks.rewind({{"w", of_numbers({10, 20, 30, 40}, {4})}, {"other", ones({2})}});
  expect_close("w after rewinding to {10, 20, 30, 40}", numbers(p.w), {10, 0, 0, 40}, {4});
  expect_throws("TT-NN-04", "a state without w", [&] { masks.rewind({{"other", ones({4})}}); });
  expect_throws("TT-NN-04", "a state with another shape", [&] { masks.rewind({{"w", ones({5})}}); });
  expect_close("w as it was", numbers(p.w), {10, 0, 0, 40}, {4});
}

TEST_CASE("8.2 masks of other shapes and dtypes, and optimizers without the parameter, are refused") {
  Alone p({1, 2, 3, 4}, {4});
  PruningMasks masks;
  expect_throws("TT-PRUNE-03", "a mask [2, 2] of [4]", [&] {
    masks.prune({"w", p.w}, mask_of({1, 0, 1, 1}, {2, 2}));
  });
  expect_throws("TT-PRUNE-03", "a mask of f32", [&] { masks.prune({"w", p.w}, ones({4})); });
  expect_equal("nothing is masked", masks.size(), int64_t{0});
  expect_close("nothing is removed", numbers(p.w), {1, 2, 3, 4}, {4});
  masks.prune({"w", p.w}, mask_of({1, 0, 1, 1}, {4}));
  const auto optimizer = optimizer_of(true, {{"weight", p.w}});
  expect_throws("TT-PRUNE-03", "an optimizer that knows the parameter as 'weight'",
                [&] { masks.keep_in(*optimizer); });
}
