#include <tinytorch/transformer/positions.hpp>

#include <support/errors.hpp>
#include <support/values.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

// The product of q rotated to position m and k rotated to position n.
double product_at(tt::Rotary& rotary, const tt::Tensor& q, const tt::Tensor& k, int64_t m, int64_t n) {
  return tt::sum(rotary.turn(q, m) * rotary.turn(k, n)).item<double>();
}

}  // namespace

TEST_CASE("learned positions are rows of the table from the first position on, with gradients") {
  tt::LearnedPositions table(6, 3);
  CHECK(table.rows(0, 6).to_vector() == table.weight.to_vector());
  CHECK(table.rows(2, 3).to_vector() == table.weight.slice(0, 2, 5).to_vector());
  tt::sum(table.rows(1, 2)).backward();
  CHECK(table.weight.grad().sum({1}).to_vector() == std::vector<float>{0, 3, 3, 0, 0, 0});
  CHECK(message_of([&] { table.rows(4, 3); }) ==
        "TT-NN-20: positions 4 to 6 are outside of the 6 learned positions of the model\n"
        "  hint: cut the tokens to the model's context");
}

TEST_CASE("sinusoidal positions alternate sine and cosine, with falling frequencies") {
  const tt::Tensor table = tt::sinusoidal_positions(0, 4, 6);
  CHECK(table.shape() == tt::Shape{4, 6});
  const double slow = std::pow(10000.0, -2.0 / 6), slower = std::pow(10000.0, -4.0 / 6);
  check_values(table.select(0, 0).to_vector<double>(), {0, 1, 0, 1, 0, 1}, 1e-7);
  check_values(table.select(0, 3).to_vector<double>(),
               {std::sin(3.0), std::cos(3.0), std::sin(3 * slow), std::cos(3 * slow), std::sin(3 * slower),
                std::cos(3 * slower)},
               1e-7);
  CHECK(tt::sinusoidal_positions(2, 2, 6).to_vector() == table.slice(0, 2).to_vector());
  CHECK(tt::sinusoidal_positions(0, 2, 5).to_vector()[9] ==
        std::sin(static_cast<float>(std::pow(10000.0, -0.8))));
}

TEST_CASE("rotary: value i is paired with value i + D/2, not with the adjacent one") {
  tt::Rotary rotary(4, {.theta = 100});
  const tt::Tensor x = tt::from_data({1.0, 2.0, 3.0, 4.0}, {1, 1, 1, 4});
  const double a = 5, b = 5 * 0.1;  // angles at position 5
  check_values(rotary.turn(x, 5).to_vector<double>(),
               {std::cos(a) - 3 * std::sin(a), 2 * std::cos(b) - 4 * std::sin(b),
                3 * std::cos(a) + std::sin(a), 4 * std::cos(b) + 2 * std::sin(b)},
               1e-6);
  CHECK(rotary.turn(x, 0).to_vector() == x.to_vector());
}

TEST_CASE("rotary: products depend on the distance alone, and norms are kept") {
  tt::Generator g(2);
  const tt::Tensor q = tt::randn({1, 1, 1, 10}, tt::f64, tt::default_device(), g);
  const tt::Tensor k = tt::randn({1, 1, 1, 10}, tt::f64, tt::default_device(), g);
  for (const tt::RotaryOptions& options :
       {tt::RotaryOptions{}, tt::RotaryOptions{.theta = 500, .scaling = tt::Llama3Scaling{4, 1, 4, 64}}}) {
    tt::Rotary rotary(10, options);
    const double near = product_at(rotary, q, k, 7, 3), far = product_at(rotary, q, k, 60, 3);
    for (const int64_t shift : {1, 20, 101, 500}) {
      CHECK(product_at(rotary, q, k, 7 + shift, 3 + shift) == doctest::Approx(near).epsilon(1e-5));
      CHECK(product_at(rotary, q, k, 60 + shift, 3 + shift) == doctest::Approx(far).epsilon(1e-5));
    }
    CHECK(std::abs(near - far) > 1e-2);
    CHECK(product_at(rotary, q, q, 99, 99) == doctest::Approx(tt::sum(q * q).item<double>()).epsilon(1e-6));
  }
}

TEST_CASE(
    "rotary: tokens from a start position are rotated as in the whole sequence, however the table grew") {
  tt::Generator g(4);
  const tt::Tensor x = tt::randn({2, 3, 200, 6}, tt::f32, tt::default_device(), g);
  tt::Rotary whole(6), grown(6);
  const tt::Tensor expected = whole.turn(x);
  CHECK(grown.turn(x.slice(2, 0, 1)).to_vector() == expected.slice(2, 0, 1).to_vector());
  CHECK(grown.turn(x.slice(2, 150, 170), 150).to_vector() == expected.slice(2, 150, 170).to_vector());
  CHECK(grown.turn(x.slice(2, 170), 170).to_vector() == expected.slice(2, 170).to_vector());
}

TEST_CASE("rotary in 16 bits is the f32 result, rounded once") {
  tt::Generator g(5);
  for (const tt::DType dtype : {tt::bf16, tt::f16}) {
    const tt::Tensor x = tt::randn({1, 2, 90, 8}, tt::f32, tt::default_device(), g).to(dtype);
    tt::Rotary rotary(8);
    CHECK(rotary.turn(x).dtype() == dtype);
    CHECK(rotary.turn(x).to_vector() == rotary.turn(x.to(tt::f32)).to(dtype).to_vector());
  }
}

TEST_CASE("rotary: the derivative matches finite differences") {
  tt::Generator g(6);
  tt::Rotary rotary(4);
  const tt::Tensor x = tt::randn({1, 2, 3, 4}, tt::f64, tt::default_device(), g).requires_grad_();
  const auto result = tt::gradcheck([&](const tt::Tensors& in) { return rotary.turn(in[0], 2); }, {x});
  CHECK_MESSAGE(result.passed, result.message);
}

TEST_CASE("Llama 3's scaling keeps high frequencies, divides low ones by the factor, and is continuous") {
  const tt::Llama3Scaling s{8, 1, 4, 8192};
  const double one_turn = 2 * std::numbers::pi / 8192;  // one turn in the original context
  CHECK(s.apply(5 * one_turn) == 5 * one_turn);
  CHECK(s.apply(0.5 * one_turn) == 0.5 * one_turn / 8);
  CHECK(s.apply(4 * one_turn) == doctest::Approx(4 * one_turn));
  CHECK(s.apply(1 * one_turn) == doctest::Approx(one_turn / 8));
  CHECK(s.apply(2.5 * one_turn) == doctest::Approx(2.5 * one_turn * (0.5 + 0.5 / 8)));
  CHECK(tt::Rotary(4, {.theta = 1e4, .scaling = s}).frequencies()[1] == doctest::Approx(0.01).epsilon(1e-12));
}

TEST_CASE("rotary throws for odd head sizes and wrong shapes") {
  CHECK(message_of([] { tt::Rotary(5); }) ==
        "TT-NN-21: rotary positions rotate pairs: the head size must be even, got 5");
  CHECK(message_of([] { tt::Rotary(4).turn(tt::zeros({1, 1, 2, 6})); }).starts_with("TT-SHAPE-02"));
}
