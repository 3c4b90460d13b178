// Errors: stable code, text, and the caller's file and line.
#include <support/errors.hpp>

namespace tt = tinytorch;

namespace {
int where(tt::Loc loc = tt::Loc::current()) { return loc.line; }
}  // namespace

TEST_CASE("the default location is the caller's") {
  const int here = __LINE__ + 1;
  CHECK(where() == here);
}

TEST_CASE("fail() composes code, text and location") {
  const int line = __LINE__ + 1;
  const auto t = errors::thrown_by([] { tt::fail("TT-TEST-07", "op: it is wrong\n  hint: do better"); });
  CHECK(t.code == "TT-TEST-07");
  CHECK(t.text == "TT-TEST-07: op: it is wrong\n  hint: do better");
  CHECK(t.file == __FILE__);
  CHECK(t.line == line);
  CHECK_FALSE(t.without_cuda);
}

TEST_CASE("the error for a build without CUDA names the operation and the remedy") {
  const auto t = errors::thrown_by([] { tt::fail_without_cuda("matmul"); });
  CHECK(t.without_cuda);
  CHECK(t.code == "TT-CUDA-01");
  CHECK(t.text ==
        "TT-CUDA-01: matmul: this program was built without CUDA\n  hint: configure with "
        "-DTINYTORCH_WITH_CUDA=ON "
        "and link tinytorch::cuda, or keep the tensors on the CPU");
}

TEST_CASE("Error derives from std::runtime_error") {
  CHECK_THROWS_AS(tt::fail("A", "b"), std::runtime_error);
}
