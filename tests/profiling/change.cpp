// The effect of a change: computed by hand, and of a real change, whose speedup Amdahl's law predicts from
// its part.
#include <doctest/doctest.h>

#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/profiling/change.hpp>
#include <tinytorch/profiling/profiler.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using namespace tinytorch::profiling;

namespace {

Profile made_of(double seconds, const std::vector<std::pair<std::string, double>>& ops) {
  Profile p;
  p.scopes = {{"", -1, 0, seconds}};
  p.seconds = seconds;
  for (const auto& [name, time] : ops) {
    OpRecord op;
    op.name = name;
    op.seconds = op.device_seconds = time;
    p.ops.push_back(op);
  }
  return p;
}

// x [n, n] times itself, by naive loops and by the library.
template <bool fast>
struct Product final : tt::Primitive<Product<fast>> {
  static constexpr const char* kName = fast ? "product" : "naive_product";
  tt::Specs infer(const tt::Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const tt::Tensors& in, tt::Tensors& out) const override {
    const int64_t n = in[0].size(0);
    if (fast) return tt::backend::cpu::matmul(out[0].view_of(), in[0].view_of(), in[0].view_of());
    const float* const x = in[0].data<float>();
    float* const y = out[0].data<float>();
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < n; ++k) sum += x[i * n + k] * x[k * n + j];
        y[i * n + j] = sum;
      }
    }
  }
};

// A step of a small model: a matrix product, and unchanged work of about the same time. Returns the fastest
// of nine.
template <bool fast>
Profile profile_of_model() {
  const tt::NoGrad guard;
  const tt::Tensor x = tt::ones({160, 160}) / 160, y = tt::rand({1 << 18});
  std::optional<Profile> best;
  for (int i = 0; i < 9; ++i) {
    Profiler profiler;
    tt::apply(Product<fast>(), {x});
    // Much longer than waking threads that slept during a single-threaded product.
    for (int k = 0; k < 16; ++k) tt::exp(tt::sin(y));
    Profile p = profiler.finish();
    if (!best || p.seconds < best->seconds) best = std::move(p);
  }
  return *best;
}

}  // namespace

TEST_CASE("compare_profiles: one op is four times as fast, and nothing else changed") {
  const Profile before = made_of(10, {{"matmul", 5}, {"matmul", 1}, {"softmax", 3}});
  const Profile after = made_of(5.5, {{"matmul", 1.25}, {"matmul", 0.25}, {"softmax", 3}});
  const Change c = compare_profiles(before, after);
  CHECK(c.part_name == "matmul");
  REQUIRE(c.ops.size() == 2);
  CHECK(c.ops[0].op == "matmul");
  CHECK(c.ops[0].difference() == -4.5);
  CHECK(c.ops[1].difference() == 0);
  REQUIRE(c.part);
  CHECK(c.part->share == doctest::Approx(0.6));
  CHECK(c.part->factor == doctest::Approx(4));
  CHECK(c.part->predicted == doctest::Approx(10 / 5.5));
  CHECK(c.part->measured == doctest::Approx(10 / 5.5));
  CHECK(c.part->bound == doctest::Approx(2.5));
  CHECK(c.part->rest_seconds == doctest::Approx(0));
}

TEST_CASE("compare_profiles: an op and its replacement can be one part") {
  const Profile before = made_of(10, {{"matmul", 4}, {"softmax", 4}, {"add", 1}});
  const Profile after = made_of(4, {{"attention", 2}, {"add", 1}});
  const Change c = compare_profiles(before, after, {"matmul", "softmax", "attention"});
  CHECK(c.part_name == "matmul + softmax + attention");
  CHECK(c.part->factor == doctest::Approx(4));
  CHECK(c.part->predicted == doctest::Approx(2.5));
  CHECK(c.part->measured == doctest::Approx(2.5));
  // Without the replacement the part would be free, and the rest slower by the replacement's time.
  const Change alone = compare_profiles(before, after, {"matmul", "softmax"});
  CHECK(alone.part->predicted == doctest::Approx(5));
  CHECK(alone.part->rest_seconds == doctest::Approx(2));
  // An op without time before is not chosen as the part.
  CHECK_FALSE(compare_profiles(before, after, {"attention"}).part);
  CHECK(compare_profiles(before, made_of(19, {{"other", 10}, {"matmul", 4}, {"softmax", 3}})).part_name ==
        "add");
}

TEST_CASE("mean_step divides all times by the number of steps") {
  const Profile p = mean_step(made_of(10, {{"add", 4}, {"add", 2}}), 4);
  CHECK(p.seconds == 2.5);
  CHECK(p.op_seconds() == 1.5);
}

TEST_CASE("a real change: replacing a naive product has the speedup that Amdahl's law predicts") {
  const auto measure = [] {
    return compare_profiles(profile_of_model<false>(), profile_of_model<true>(),
                            {"naive_product", "product"});
  };
  const auto disturbed = [](const Change& c) {  // by other work on the machine during one of the two
    return !c.part || c.part->measured > c.part->predicted * 1.2 ||
           c.part->measured < c.part->predicted / 1.2;
  };
  Change c = measure();
  for (int again = 0; again < 20 && disturbed(c); ++again) c = measure();
  REQUIRE(c.part);
  CAPTURE(c.part->share);
  CAPTURE(c.part->factor);
  CAPTURE(c.part->predicted);
  CAPTURE(c.part->measured);
  CHECK(c.part->share > 0.2);
  CHECK(c.part->factor > 2);
  CHECK(c.part->measured > 1.1);
  CHECK(c.part->measured < 1.2 * c.part->bound);
  CHECK(c.part->measured / c.part->predicted > 1 / 1.5);
  CHECK(c.part->measured / c.part->predicted < 1.5);
}
