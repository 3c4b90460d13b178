// Primitive: defaults, cloning, and the count of bytes.
#include <support/errors.hpp>
#include <tinytorch/tensor/primitive.hpp>
#include <tinytorch/tinytorch.hpp>

namespace {
namespace tt = tinytorch;
struct Scale final : tt::Primitive<Scale> {
  static constexpr const char* kName = "scale";
  double factor;
  explicit Scale(double f) : factor(f) {}
  tt::Specs infer(const tt::Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const tt::Tensors&, tt::Tensors&) const override {}
};
}  // namespace

TEST_CASE("defaults: a kernel without cost, views, saves or derivative") {
  const Scale op(2);
  const tt::PrimitiveBase& base = op;
  CHECK(std::string(base.name()) == "scale");
  CHECK(base.flops({}, {}) == 0);
  CHECK_FALSE(base.is_view());
  CHECK(base.saves() == tt::Save::nothing);
  CHECK(base.differentiable());
  CHECK(errors::thrown_by([&] { base.vjp({}, {}); }).code == "TT-GRAD-05");
}

TEST_CASE("a clone includes the attributes") {
  const auto copy = Scale(2.5).clone();
  const auto* scale = dynamic_cast<const Scale*>(copy.get());
  REQUIRE(scale != nullptr);
  CHECK(scale->factor == 2.5);
}

TEST_CASE("bytes_moved() counts each operand once at its own size, and ignores undefined ones") {
  const tt::Tensor a = tt::empty({2, 3}), row = tt::empty({3}, tt::f16), out = tt::empty({2, 3}, tt::f64);
  CHECK(tt::bytes_moved({a, row, tt::Tensor()}, {out}) == 24 + 6 + 48);
  CHECK(tt::bytes_moved({}, {}) == 0);
}
