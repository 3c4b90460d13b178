#include <tinytorch/layers/state_dict.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>

namespace tt = tinytorch;

TEST_CASE("equal names and shapes are accepted, with another floating dtype too") {
  const tt::StateDict own{{"a", tt::zeros({2, 3})}, {"n", tt::zeros(tt::Shape{}, tt::i64)}};
  tt::StateDict given{{"a", tt::ones({2, 3}, tt::f64)}, {"n", tt::full(tt::Shape{}, 5, tt::i64)}};
  CHECK(message_of([&] { tt::require_same_entries("load", "it", own, given); }).empty());
  tt::StateDict target = own;
  tt::copy_entries(target, given);
  CHECK(own.at("a").to_vector() == std::vector<float>(6, 1.f));
  CHECK(own.at("n").item<int64_t>() == 5);
}

TEST_CASE("an integer tensor is rejected where a floating-point tensor is expected") {
  const tt::StateDict own{{"a", tt::zeros({2})}}, given{{"a", tt::zeros({2}, tt::i64)}};
  CHECK(
      message_of([&] { tt::require_same_entries("load", "this thing", own, given); }) ==
      "TT-NN-04: load: the state does not fit this thing\n  wrong shape (1): a is i64 [2], expected f32 [2]\n"
      "  hint: build this thing with the sizes and options it was saved with");
}
