// Tests of reason_of(), which shortens the message of an exception to one line.
#include <doctest/doctest.h>

#include <stdexcept>
#include <tinymlperf/support/reason.hpp>

using tinymlperf::reason_of;

TEST_CASE("a reason is one line with the expected and the found value") {
  const std::runtime_error e(
      "TT-IO-03: cannot read 'w' as safetensors\n  expected: 8 bytes\n  found:    0 bytes\n"
      "  hint: x\n  at file.cpp:3");
  CHECK(reason_of(e.what()) == "TT-IO-03: cannot read 'w' as safetensors; expected: 8 bytes; found: 0 bytes");
  CHECK(reason_of("plain") == "plain");
}
