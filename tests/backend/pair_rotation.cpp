#include <tinytorch/backend/pair_rotation.hpp>

#include <doctest/doctest.h>

TEST_CASE("half the turned elements are the width of the tables") {
  tinytorch::backend::PairRotation rotation;
  rotation.cos.shape = {9, 12};
  CHECK(rotation.half() == 12);
  CHECK(rotation.positions.data == nullptr);
}
