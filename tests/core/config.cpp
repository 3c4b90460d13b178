// Build switches: their values in this build, and the expansion of each macro.
#include <doctest/doctest.h>

#include <tinytorch/core/config.hpp>
#include <tinytorch/core/error.hpp>
#include <typeinfo>

namespace tinytorch::inline TT_BUILD {
struct Probe {};
}  // namespace tinytorch::inline TT_BUILD

TEST_CASE("the CUDA switch is part of every mangled name") {
  const std::string name = typeid(tinytorch::Probe).name();
  const std::string expected = TINYTORCH_WITH_CUDA ? "with_cuda" : "cpu_only";
  CHECK(name.find(expected) != std::string::npos);
}

TEST_CASE("TT_BODIES is 1 exactly if the library is not compiled") {
#ifdef TINYTORCH_COMPILED
  constexpr bool kExpected = false;
#else
  constexpr bool kExpected = true;
#endif
#if TT_BODIES(BACKEND) && TT_BODIES(PRODUCTS) && TT_BODIES(TENSOR) && TT_BODIES(LAYERS)
  constexpr bool kAll = true;
#else
  constexpr bool kAll = false;
#endif
#if TT_BODIES(BACKEND) || TT_BODIES(PRODUCTS) || TT_BODIES(TENSOR) || TT_BODIES(LAYERS)
  constexpr bool kAny = true;
#else
  constexpr bool kAny = false;
#endif
  CHECK(kAll == kExpected);
  CHECK(kAny == kExpected);
}

TEST_CASE("the version has the form major.minor.patch") {
  int dots = 0;
  for (char c : std::string(TINYTORCH_VERSION)) {
    CHECK((c == '.' || (c >= '0' && c <= '9')));
    dots += c == '.';
  }
  CHECK(dots == 2);
}
