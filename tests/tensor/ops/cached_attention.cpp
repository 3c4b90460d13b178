// The kernels have tests of their own (backend/cpu/attention_decode.cpp); here, how tensors get there.
#include <tinytorch/tensor/ops/cached_attention.hpp>

#include <cmath>
#include <support/errors.hpp>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/profiling/cost.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

void check_close(const tt::Tensor& got, const tt::Tensor& wanted, double tolerance) {
  REQUIRE(got.shape() == wanted.shape());
  const std::vector<double> a = got.to_vector<double>(), b = wanted.to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::isnan(a[i]) ? INFINITY : std::abs(a[i] - b[i]));
  CHECK(worst <= tolerance);
}

// Pages of one sequence per page, with `count` new tokens after `past`.
tt::KvMemory memory_of(int64_t past, int64_t count, int64_t groups, int64_t page, int64_t head_size) {
  tt::KvMemory m;
  m.keys = tt::zeros({1, groups, page, head_size}), m.values = tt::zeros({1, groups, page, head_size});
  m.lengths = tt::from_data(std::vector<int64_t>{past + count}, {1});
  m.first_row = tt::from_data(std::vector<int64_t>{0, count}, {2});
  m.longest = m.tokens = past + count, m.most_rows = count;
  return m;
}

}  // namespace

TEST_CASE("the last rows of causal attention, whatever the strides of q, k and v") {
  tt::manual_seed(1);
  const int64_t H = 4, G = 2, D = 8, T = 30, past = 27;
  const tt::Tensor packed = tt::randn({T, H + 2 * G, D});
  const tt::Tensor q = tt::slice(packed, 1, 0, H), k = tt::slice(packed, 1, H, H + G),
                   v = tt::slice(packed, 1, H + G);
  const auto heads = [](const tt::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };  // [1, H, T, D]
  for (const int64_t window : {0, 5}) {
    const tt::Tensor all =
        tt::scaled_dot_product_attention(heads(q), heads(k), heads(v), {.causal = true, .window = window});
    const tt::Tensor wanted = all.select(0, 0).transpose(0, 1);  // [T, H, D]
    tt::KvMemory m = memory_of(0, past, G, 40, D);
    tt::kv_append(m, tt::slice(k, 0, 0, past), tt::slice(v, 0, 0, past));
    tt::KvMemory step = memory_of(past, T - past, G, 40, D);
    step.keys = m.keys, step.values = m.values;
    tt::kv_append(step, tt::slice(k, 0, past), tt::slice(v, 0, past));
    const tt::Tensor y = tt::cached_attention(tt::slice(q, 0, past), step, {.window = window});
    check_close(y, tt::slice(wanted, 0, past), 1e-5);
    const tt::Tensor scaled =
        tt::cached_attention(tt::slice(q, 0, past), step, {.scale = 0.1, .window = window});
    check_close(
        scaled,
        tt::cached_attention(tt::slice(q, 0, past) * (0.1 * std::sqrt(8.0)), step, {.window = window}), 1e-5);
  }
}

TEST_CASE("to append and to attend in one call is to do one after the other") {
  tt::manual_seed(2);
  for (const tt::DType dtype : {tt::f32, tt::bf16}) {
    const auto rows = [&](int64_t heads) { return tt::randn({3, heads, 64}).to(dtype); };
    const tt::Tensor q = rows(4), k = rows(2), v = rows(2);
    tt::KvMemory apart = memory_of(5, 3, 2, 40, 64), together = memory_of(5, 3, 2, 40, 64);
    for (tt::KvMemory* m : {&apart, &together}) m->keys = m->keys.to(dtype), m->values = m->values.to(dtype);
    tt::kv_append(apart, k, v);
    const tt::Tensor wanted = tt::cached_attention(q, apart, {.window = 4});
    const tt::Tensor got = tt::append_and_attend(q, k, v, together, {.window = 4});
    CHECK(got.to_vector<double>() == wanted.to_vector<double>());
    CHECK(together.keys.to_vector<double>() == apart.keys.to_vector<double>());
    CHECK(together.values.to_vector<double>() == apart.values.to_vector<double>());
  }
}

TEST_CASE("operands that do not fit are refused") {
  const tt::KvMemory m = memory_of(3, 1, 2, 10, 8);
  const auto refused = [](const char* code, const std::function<void()>& f) {
    test::expect_error(code, "", f);
  };
  refused("TT-SHAPE-02", [&] { tt::kv_append(m, tt::zeros({1, 3, 8}), tt::zeros({1, 2, 8})); });
  refused("TT-SHAPE-02", [&] { tt::kv_append(m, tt::zeros({1, 2, 8}), tt::zeros({1, 2, 7})); });
  refused("TT-SHAPE-02", [&] { (void)tt::cached_attention(tt::zeros({1, 3, 8}), m); });
  refused("TT-SHAPE-02", [&] { (void)tt::cached_attention(tt::zeros({1, 8}), m); });
  refused("TT-SHAPE-02", [&] {
    (void)tt::append_and_attend(tt::zeros({1, 2, 8}), tt::zeros({1, 3, 8}), tt::zeros({1, 2, 8}), m);
  });
  refused("TT-DTYPE-02", [&] { (void)tt::cached_attention(tt::zeros({1, 2, 8}, tt::i64), m); });
  refused("TT-RANGE-02", [&] { (void)tt::cached_attention(tt::zeros({1, 2, 8}), m, {.window = -1}); });
  CHECK_THROWS_WITH_AS((void)tt::cached_attention(tt::zeros({1, 2, 8}, tt::f64), m),
                       doctest::Contains("f64 with f64"), tt::Error);
  tt::Tensor q = tt::zeros({1, 2, 8});
  q.requires_grad_();
  refused("TT-GRAD-05", [&] { (void)tt::cached_attention(q, m); });
  const tt::NoGrad no_grad;
  CHECK(tt::cached_attention(q, m).shape() == tt::Shape{1, 2, 8});
}

TEST_CASE(
    "the cost of a step is what it reads of the cache, and a product for each pair of a query and a key") {
  const tt::KvMemory m = memory_of(99, 1, 2, 200, 16);
  const tt::Tensor q = tt::zeros({1, 4, 16});
  const tt::Cost cost = tt::profiling::count_cost([&] { (void)tt::cached_attention(q, m); });
  CHECK(cost.flops == 4.0 * 100 * 4 * 16);
  CHECK(cost.bytes == 100.0 * 2 * 2 * 16 * 4 + 2.0 * 4 * 16 * 4);
}
