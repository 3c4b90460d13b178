// Audit A5: an output that changes after it was given. The comparison needs no GPU.
#include <tinymlperf/device/measured_op.hpp>

#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>

TEST_CASE("the first byte of an output that changed is reported") {
  using tinymlperf::device::late_change;
  std::vector<std::byte> given(64, std::byte{7}), later = given;
  CHECK(late_change(given, later) == "");
  later[40] = std::byte{8}, later[50] = std::byte{8};
  CHECK(late_change(given, later) ==
        "audit A5, output fingerprint: byte 40 of the output changed after it was given");
  CHECK(late_change({}, {}) == "");
}
