// Storage: owns its block, counts writes, and knows its device.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/tensor/storage.hpp>

namespace tt = tinytorch;

TEST_CASE("a storage holds its bytes for as long as it lives") {
  const size_t before = tt::allocator_stats().current;
  {
    tt::Storage s(1000, tt::cpu, tt::Loc::current());
    CHECK(s.bytes() == 1000);
    CHECK(s.data() != nullptr);
    CHECK(s.device() == tt::cpu);
    CHECK(tt::allocator_stats().current == before + 1000);
  }
  CHECK(tt::allocator_stats().current == before);
}

TEST_CASE("the version counts writes") {
  tt::Storage s(8, tt::cpu, tt::Loc::current());
  CHECK(s.version() == 0);
  s.bump_version();
  s.bump_version();
  CHECK(s.version() == 2);
}

TEST_CASE("no storage on a device that was not built, and no bytes lost in trying") {
  if (TINYTORCH_WITH_CUDA) return;
  const size_t before = tt::allocator_stats().current;
  CHECK_THROWS_AS(tt::Storage(8, tt::cuda, tt::Loc::current()), tt::BuiltWithoutCuda);
  CHECK(tt::allocator_stats().current == before);
}
