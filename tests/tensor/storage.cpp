// Storage: owns a block of memory, counts writes, and stores its device.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/tensor/storage.hpp>

namespace tt = tinytorch;

TEST_CASE("a storage owns its bytes until it is destroyed") {
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

TEST_CASE("storage on CUDA in a build without CUDA is an error and leaks nothing") {
  if (TINYTORCH_WITH_CUDA) return;
  const size_t before = tt::allocator_stats().current;
  CHECK_THROWS_AS(tt::Storage(8, tt::cuda, tt::Loc::current()), tt::BuiltWithoutCuda);
  CHECK(tt::allocator_stats().current == before);
}
