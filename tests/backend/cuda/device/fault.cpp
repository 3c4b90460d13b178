// Range checks of indices on the device: the next synchronization reports the first invalid index.
#include <chrono>
#include <support/device.hpp>
#include <support/errors.hpp>
#include <tinytorch/backend/cuda/device/fault.hpp>

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;
using test::DeviceBytes;
using test::needs_devices;

namespace {

// i64 values on the device, viewed with a stride.
struct Indices {
  explicit Indices(const std::vector<int64_t>& values, int64_t step = 1)
      : bytes(values.size() * sizeof(int64_t)),
        view{bytes.data(), tt::DType::i64, {static_cast<int64_t>(values.size()) / step}, {step}} {
    cuda::copy_bytes(bytes.data(), test::on_cuda(0), values.data(), tt::cpu, bytes.size());
  }
  DeviceBytes bytes;
  tt::backend::View view;
};

void check(const Indices& indices, int64_t size, int64_t except, const char* name) {
  cuda::check_range(
      indices.view, size, except,
      [name](int64_t value, int64_t position) {
        return std::string(name) + ": " + std::to_string(value) + " at " + std::to_string(position);
      },
      tt::Loc::current());
}

}  // namespace

TEST_CASE("indices inside the range and the excepted value are valid" * needs_devices()) {
  const Indices inside({0, 6, 3, -100, 5}), none({});
  check(inside, 7, -100, "inside");
  check(none, 0, 0, "none");
  CHECK_NOTHROW(cuda::synchronize());
}

TEST_CASE("the first position of the first call is reported, once" * needs_devices()) {
  std::vector<int64_t> values(5000, 2);
  values[1203] = 4;
  values[4999] = -1;
  const Indices wrong(values), also_wrong({9}), stepped({0, 77, 1, 77, 2, 77}, 2);
  check(stepped, 3, 0, "stepped");  // values between the strides are not checked
  check(wrong, 4, 0, "first");
  check(also_wrong, 4, 0, "second");
  const errors::Thrown fault = errors::thrown_by([] { cuda::synchronize(); });
  CHECK(fault.code == "TT-RANGE-05");
  CHECK(fault.text == "TT-RANGE-05: first: 4 at 1203");
  CHECK_NOTHROW(cuda::synchronize());
}

TEST_CASE("among very many invalid indices the first is reported, within 0.1 s" * needs_devices()) {
  std::vector<int64_t> values(test::kEmulated ? 5000 : 3'000'000, 2);
  for (size_t i = 1234; i < values.size(); ++i) values[i] = i % 2 == 0 ? -static_cast<int64_t>(i) : 3;
  const Indices wrong(values);
  cuda::synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int call = 0; call < 3; ++call) {
    check(wrong, 4, 0, call == 0 ? "first" : "later");
  }
  const errors::Thrown fault = errors::thrown_by([] { cuda::synchronize(); });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(fault.text == "TT-RANGE-05: first: -1234 at 1234");
  MESSAGE("reported after ", took.count() * 1e3, " ms");
  if (!test::kEmulated) CHECK(took.count() < 0.1);
  CHECK_NOTHROW(cuda::synchronize());
}

TEST_CASE("the error has the line of the check, not of the synchronization" * needs_devices()) {
  const Indices wrong({-3});
  const tt::Loc asked = tt::Loc::current();
  cuda::check_range(
      wrong.view, 4, 0, [](int64_t, int64_t) { return std::string("wrong"); }, asked);
  const errors::Thrown fault = errors::thrown_by([] { cuda::synchronize(); });
  CHECK(fault.file.ends_with("fault.cpp"));
  CHECK(fault.line == asked.line);
}
