#include <tinytorch/backend/codes_product.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace tinytorch;
using backend::Activation;
using backend::View;

namespace {

// A view without elements that anybody reads.
View view(DType dtype, const Shape& shape) {
  static char byte;
  View v{&byte, dtype, shape, Strides::filled(shape.size(), 1)};
  return v;
}
std::string refusal(DType codes, const View& out, const View& x, const View& w, const View& x_scale,
                    const View& w_scale, const View& bias, Activation fn = Activation::none) {
  try {
    backend::check_codes_product("op", codes, out, x, w, x_scale, w_scale, bias, fn);
  } catch (const Error& e) {
    return e.code();
  }
  return "";
}

}  // namespace

TEST_CASE("operands that fit are accepted, and each rule refuses what breaks it") {
  const View x = view(i8, {2, 4}), w = view(i8, {3, 4}), out = view(bf16, {2, 3}), sums = view(i32, {2, 3}),
             one = view(f32, {1}), two = view(f32, {2}), three = view(f32, {3}), fp8 = view(u8, {2, 4});
  CHECK(refusal(i8, out, x, w, two, three, three, Activation::relu) == "");
  CHECK(refusal(i8, out, x, w, one, one, {}) == "");
  CHECK(refusal(i8, sums, x, w, {}, {}, {}) == "");
  CHECK(refusal(u8, out, fp8, view(u8, {3, 4}), one, three, view(bf16, {3})) == "");
  CHECK(refusal(i8, out, fp8, w, one, one, {}) == "TT-DTYPE-02");
  CHECK(refusal(u8, sums, fp8, view(u8, {3, 4}), {}, {}, {}) == "TT-DTYPE-02");
  CHECK(refusal(i8, view(f64, {2, 3}), x, w, one, one, {}) == "TT-DTYPE-02");
  CHECK(refusal(i8, sums, x, w, one, {}, {}) == "TT-DTYPE-02");
  CHECK(refusal(i8, sums, x, w, {}, {}, three) == "TT-DTYPE-02");
  CHECK(refusal(i8, sums, x, w, {}, {}, {}, Activation::relu) == "TT-DTYPE-02");
  CHECK(refusal(i8, out, x, w, view(f64, {2}), three, {}) == "TT-DTYPE-02");
  CHECK(refusal(i8, out, x, w, three, three, {}) == "TT-SHAPE-02");
  CHECK(refusal(i8, out, x, w, two, two, {}) == "TT-SHAPE-02");
  CHECK(refusal(i8, out, x, w, two, three, two) == "TT-SHAPE-02");
  CHECK(refusal(i8, out, x, view(i8, {3, 5}), two, three, {}) == "TT-SHAPE-02");
  CHECK(refusal(i8, view(f32, {3, 3}), x, w, one, one, {}) == "TT-SHAPE-02");
}
