#include <08_pruning/checks/weights.hpp>
#include <tinytorch/pruning/magnitude.hpp>

using namespace course;

namespace {

void check_layer(const std::string& what, const Tensor& w, double sparsity, size_t removed) {
  expect_mask("magnitude_mask of " + what + " at sparsity " + shown(sparsity), magnitude_mask(w, sparsity),
              mask_by_definition(magnitudes(numbers(w)), numbers(w).size(), removed), w.shape());
}

}  // namespace

TEST_CASE("8.1 the smallest magnitudes go, whatever their sign") {
  expect_mask("magnitude_mask of {3, -1, 0.5, -4, 2, -0.25} at 0.5",
              magnitude_mask(of_numbers({3, -1, 0.5, -4, 2, -0.25}, {2, 3}), 0.5), {1, 0, 0, 1, 1, 0},
              {2, 3});
  check_layer("random [7, 9]", random_tensor({7, 9}), 0.7, 44);
  check_layer("random [5, 3, 2, 2]", random_tensor({5, 3, 2, 2}, 100), 0.3, 18);
}

TEST_CASE("8.1 an exact count: round(sparsity n)") {
  const Tensor w = random_tensor({11});
  check_layer("random [11]", w, 0, 0);
  check_layer("random [11]", w, 0.04, 0);
  check_layer("random [11]", w, 0.05, 1);
  check_layer("random [11]", w, 0.5, 6);
  check_layer("random [11]", w, 0.99, 11);
}

TEST_CASE("8.1 of equal magnitudes the first go, and no more than the count") {
  expect_mask("magnitude_mask of eight ones at 0.25", magnitude_mask(ones({2, 4}), 0.25),
              {0, 0, 1, 1, 1, 1, 1, 1}, {2, 4});
  check_layer("{1, -1, 2, 1, -1, 2, 1}", of_numbers({1, -1, 2, 1, -1, 2, 1}, {7}), 3.0 / 7, 3);
  const Values steps = Values::random(f32, {300}, Layout::contiguous, -4, 4);
  Numbers few = Values(steps).numbers();
  for (double& v : few) v = std::nearbyint(v);
  check_layer("300 integers from -4 to 4", of_numbers(few, {300}), 0.5, 150);
}

TEST_CASE("8.1 a NaN goes last, and infinity before it") {
  const double nan = NAN, inf = INFINITY;
  expect_mask("magnitude_mask of {NaN, 5, -inf, 1} at 0.5",
              magnitude_mask(of_numbers({nan, 5, -inf, 1}, {4}), 0.5), {1, 0, 1, 0}, {4});
  expect_mask("magnitude_mask of {NaN, 5, -inf, 1} at 0.75",
              magnitude_mask(of_numbers({nan, 5, -inf, 1}, {4}), 0.75), {1, 0, 0, 0}, {4});
}

TEST_CASE("8.1 every dtype and layout, scalars and empty tensors") {
  for (const DType dtype : {f64, f32, bf16, DType::f16}) {
    const Tensor w = random_tensor({6, 10}).to(dtype);
    check_layer(std::string(name_of(dtype)) + " [6, 10]", w, 0.4, 24);
    check_layer(std::string("transposed ") + name_of(dtype) + " [10, 6]", w.t(), 0.4, 24);
  }
  const Tensor close = Tensor(from_data(Numbers{1, 1 + 1e-12, 1 - 1e-12}, {3}));
  expect_mask("magnitudes that differ in f64 only", magnitude_mask(close, 0.3), {1, 1, 0}, {3});
  expect_mask("a scalar at 0.4", magnitude_mask(of_numbers({-2}, {}), 0.4), {1}, {});
  expect_mask("[0, 3] at 0.9", magnitude_mask(zeros({0, 3}), 0.9), {}, {0, 3});
}

TEST_CASE("8.1 by layer: each tensor loses its own share") {
  const Tensors weights{random_tensor({4, 5}), random_tensor({3, 3}, 0.01), random_tensor({50}, 100)};
  const Tensors masks = magnitude_masks(weights, 0.4);
  expect_equal("the number of masks", masks.size(), size_t{3});
  const size_t removed[] = {8, 4, 20};
  for (size_t i = 0; i < 3; ++i) {
    const Numbers w = magnitudes(numbers(weights[i]));
    expect_mask("layer " + shown(i) + " at 0.4", masks[i], mask_by_definition(w, w.size(), removed[i]),
                weights[i].shape());
  }
}

TEST_CASE("8.1 global: one threshold for all tensors") {
  const Tensors weights{random_tensor({4, 5}), random_tensor({3, 7}, 0.9), random_tensor({60}, 1.5).to(bf16)};
  Numbers all;
  for (const Tensor& w : weights)
    for (const double v : magnitudes(numbers(w))) all.push_back(v);
  const Numbers want = mask_by_definition(all, all.size(), 30);  // round(0.3 * 101)
  const Tensors masks = magnitude_masks(weights, 0.3, MaskScope::global);
  expect_equal("the number of masks", masks.size(), size_t{3});
  auto from = want.begin();
  for (size_t i = 0; i < 3; ++i) {
    const auto to = from + static_cast<int64_t>(weights[i].numel());
    expect_mask("tensor " + shown(i) + " at a global 0.3", masks[i], Numbers(from, to), weights[i].shape());
    from = to;
  }
  expect_mask("ties over two tensors: those of the first go",
              magnitude_masks({ones({3}), ones({3})}, 1.0 / 3, MaskScope::global)[1], {1, 1, 1}, {3});
}

TEST_CASE("8.1 a tensor that would lose everything, and a sparsity out of range, are refused") {
  const Tensors uneven{ones({6}), ones({2, 2}) * 0.01};
  expect_throws("TT-PRUNE-04", "a global sparsity of 0.5 that takes all of a tensor with small numbers",
                [&] { (void)magnitude_masks(uneven, 0.5, MaskScope::global); });
  expect_equal("an empty tensor has nothing to lose",
               magnitude_masks({ones({6}), zeros({0})}, 0.5, MaskScope::global).size(), size_t{2});
  for (const double bad : {-0.1, 1.0, 1.5, static_cast<double>(NAN)}) {
    expect_throws("TT-PRUNE-02", "a layer at " + shown(bad), [&] { (void)magnitude_mask(ones({4}), bad); });
    for (const MaskScope scope : {MaskScope::layer, MaskScope::global})
      expect_throws("TT-PRUNE-02", "tensors at " + shown(bad),
                    [&] { (void)magnitude_masks({ones({4})}, bad, scope); });
    expect_throws("TT-PRUNE-02", "no tensors at " + shown(bad), [&] { (void)magnitude_masks({}, bad); });
  }
  expect_equal("no tensors have no masks", magnitude_masks({}, 0.5, MaskScope::global).size(), size_t{0});
}

TEST_CASE("8.1 a random mask has the same count, and depends on nothing but the generator") {
  Generator first(7), again(7), other(8);
  const Tensor a = random_mask({40, 25}, 0.3, first), b = random_mask({40, 25}, 0.3, again),
               c = random_mask({40, 25}, 0.3, other);
  expect_equal("kept of 1000 at 0.3", count_of(numbers(a)), 700.0);
  expect("the same seed draws the same mask", numbers(a) == numbers(b));
  expect("another seed draws another mask", numbers(a) != numbers(c));
  double front = 0;
  const Numbers mask = numbers(a);
  for (size_t i = 0; i < 500; ++i) front += mask[i];
  expect("both halves lose about as much; kept in the first half: " + shown(front),
         front > 290 && front < 410);
}
