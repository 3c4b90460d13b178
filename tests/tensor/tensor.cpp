// The Tensor handle: properties, conversion from and to C++ values in every dtype, names, and errors.
#include <cmath>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;

TEST_CASE("a copy is the same tensor, a view shares storage") {
  Tensor a = tt::from_data({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2});
  const Tensor b = a;
  CHECK(a.handle_count() == 2);
  CHECK(b.impl() == a.impl());
  const Tensor v = a.t();
  CHECK(v.storage() == a.storage());
  CHECK(v.strides() == tt::Strides{1, 2});
  a.fill_(7);
  CHECK(v.to_vector() == std::vector<float>{7, 7, 7, 7});
  CHECK_FALSE(Tensor().defined());
  CHECK(a.defined());
}

TEST_CASE("shape, strides, sizes and bytes") {
  const Tensor a = tt::empty({2, 3, 4}, tt::f16);
  CHECK(a.rank() == 3);
  CHECK(a.numel() == 24);
  CHECK(a.bytes() == 48);
  CHECK(a.size(1) == 3);
  CHECK(a.size(-1) == 4);
  CHECK(a.dtype() == tt::f16);
  CHECK(a.device() == tt::default_device());
  CHECK(a.offset() == 0);
  CHECK(a.is_contiguous());
  CHECK(tt::empty({}).numel() == 1);
  CHECK(tt::empty({0, 3}).bytes() == 0);
}

TEST_CASE("values are stored and read back unchanged, in every dtype") {
  const auto check = []<class T>(const std::vector<T>& values) {
    const Tensor t = tt::from_data(values, {1, static_cast<int64_t>(values.size())});
    CHECK(t.dtype() == tt::dtype_of<T>);
    CHECK(t.shape() == tt::Shape{1, static_cast<int64_t>(values.size())});
    const std::vector<double> back = t.template to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) CHECK(back[i] == static_cast<double>(values[i]));
  };
  check(std::vector<float>{1.5f, -2});
  check(std::vector<double>{1e300, -2});
  check(std::vector<int8_t>{-128, 127});
  check(std::vector<uint8_t>{0, 255});
  check(std::vector<int32_t>{-5, 1 << 30});
  check(std::vector<int64_t>{-5, int64_t{1} << 52});
  check(std::vector<tt::Half>{tt::Half(0.5f), tt::Half(-65504.0f)});
  check(std::vector<tt::BFloat16>{tt::BFloat16(0.5f), tt::BFloat16(1e30f)});
  const Tensor b = tt::from_data(std::vector<bool>{true, false, true});
  CHECK(b.dtype() == tt::boolean);
  CHECK(b.to_vector<int>() == std::vector<int>{1, 0, 1});
  const int64_t big = (int64_t{1} << 62) + 1;
  CHECK(tt::from_data({big}).to_vector<int64_t>()[0] == big);
}

TEST_CASE("to_vector() follows strides: transposed, stepped, expanded, rank 0, empty") {
  const Tensor a = tt::arange(0, 12).reshape({3, 4});
  CHECK(a.t().to_vector<int>() == std::vector<int>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(a.slice(1, 1, tt::kEnd, 2).to_vector<int>() == std::vector<int>{1, 3, 5, 7, 9, 11});
  CHECK(a.slice(0, 2).slice(1, 3).expand({2, 1}).to_vector<int>() == std::vector<int>{11, 11});
  CHECK(a.select(0, 1).select(0, 2).to_vector<int>() == std::vector<int>{6});
  CHECK(tt::empty({0, 3}).to_vector().empty());
}

TEST_CASE("item() returns the only element of a tensor of any shape") {
  CHECK(tt::full({}, 2.5).item() == 2.5f);
  CHECK(tt::full({1, 1, 1}, 7, tt::i64).item<int>() == 7);
  CHECK(tt::arange(0, 5)[-1].item<int>() == 4);
  CHECK(std::isnan(tt::full({1}, NAN, tt::bf16).item()));
  CHECK(tt::full({1}, 1, tt::boolean).item<bool>());
}

TEST_CASE("raw access points at the first element of the view") {
  Tensor a = tt::arange(0, 6, 1, tt::f32, tt::cpu).reshape({2, 3});
  CHECK(a.select(0, 1).data<float>()[0] == 3);
  CHECK(static_cast<float*>(a.slice(1, 2).raw())[0] == 2);
  const auto v = a.slice(1, 1).view_of();
  CHECK(v.as<float>()[0] == 1);
  CHECK(v.shape == tt::Shape{2, 2});
  CHECK(v.strides == tt::Strides{3, 1});
}

TEST_CASE("the name of a tensor is part of its description") {
  Tensor w = tt::empty({2, 3}).named("weight");
  CHECK(w.describe() == errors::here("'weight' f32 [2, 3] on cpu"));
  CHECK(tt::empty({}, tt::i8).describe() == errors::here("i8 [] on cpu"));
  CHECK(Tensor().describe() == "undefined tensor");
}

TEST_CASE("for_each_element() can write") {
  Tensor a = tt::zeros({2, 2}, tt::i32, tt::cpu);
  int32_t next = 1;
  tt::for_each_element<int32_t>(a.t().view_of(), [&](int32_t& v) { v = next++; });
  CHECK(a.to_vector<int>() == std::vector<int>{1, 3, 2, 4});
}

TEST_CASE("normalize_dim() accepts negative dimensions and rejects others") {
  CHECK(tt::normalize_dim(-1, 3, "op", tt::Loc::current()) == 2);
  CHECK(tt::normalize_dim(0, 3, "op", tt::Loc::current()) == 0);
  CHECK(tt::normalize_dim(-1, 0, "op", tt::Loc::current()) == 0);
  errors::check_error("TT-SHAPE-03: op: dimension 3 is outside [-3, 2] of a tensor of rank 3",
                      [] { tt::normalize_dim(3, 3, "op", tt::Loc::current()); });
  errors::check_error("TT-SHAPE-03: op: dimension 1 is outside [-1, 0] of a tensor of rank 0",
                      [] { tt::normalize_dim(1, 0, "op", tt::Loc::current()); });
}

TEST_CASE("errors of the Tensor handle") {
  using errors::check_error;
  const Tensor x = tt::from_data({1.0f, 2.0f}).named("x");
  check_error("TT-DTYPE-01: this tensor holds f32, not i64\n  hint: convert first with .to(i64)",
              [&] { x.data<int64_t>(); });
  check_error(
      "TT-SHAPE-06: item: needs exactly one element, this tensor is 'x' f32 [2] on cpu\n  hint: reduce it "
      "first, for "
      "example with .mean()",
      [&] { x.item(); });
  check_error("TT-SHAPE-05: from_data: 3 values do not fill shape [2, 2] (4 elements)", [] {
    tt::from_data({1.0f, 2.0f, 3.0f}, {2, 2});
  });
  check_error(
      "TT-SHAPE-01: cannot make a tensor of shape [2, -1]: sizes must be >= 0 and their product must fit in "
      "memory",
      [] {
        tt::empty({2, -1});
      });
  check_error(
      "TT-SHAPE-01: cannot make a tensor of shape [4294967296, 4294967296]: sizes must be >= 0 and their "
      "product must "
      "fit in memory",
      [] {
        tt::zeros({int64_t{1} << 32, int64_t{1} << 32});
      });
  CHECK(errors::thrown_by([] { Tensor().shape(); }).text ==
        "TT-TENSOR-01: the tensor is undefined\n  hint: assign a tensor before use; a tensor that was moved "
        "from is undefined");
  CHECK(errors::thrown_by([&] { tt::add(x, Tensor()); }).code == "TT-TENSOR-01");
}

TEST_CASE("the reported line is the caller's, for functions, members, indexing and operators") {
  const Tensor x = tt::ones({2}), y = tt::ones({3}), z = tt::ones({2}, tt::f64);
  const auto line_of = [](const std::function<void()>& f) {
    const auto t = errors::thrown_by(f);
    CHECK(t.file == __FILE__);
    return t.line;
  };
  // clang-format off
  int here = __LINE__;
  CHECK(line_of([&] { tt::add(x, y); }) == here + 1);
  CHECK(line_of([&] { tt::matmul(x, y); }) == here + 2);
  CHECK(line_of([&] { x + y; }) == here + 3);
  CHECK(line_of([&] { x - z; }) == here + 4);
  CHECK(line_of([&] { x * y; }) == here + 5);
  CHECK(line_of([&] { x / y; }) == here + 6);
  CHECK(line_of([&] { (void)(x == y); }) == here + 7);
  CHECK(line_of([&] { (void)(x < z); }) == here + 8);
  CHECK(line_of([&] { tt::arange(0, 2) + 0.5; }) == here + 9);
  CHECK(line_of([&] { 0.5 * tt::arange(0, 2); }) == here + 10);
  CHECK(line_of([&] { -(x > 0); }) == here + 11);
  CHECK(line_of([&] { x.reshape({5}); }) == here + 12);
  CHECK(line_of([&] { x.sum({4}); }) == here + 13);
  CHECK(line_of([&] { x.transpose(0, 3); }) == here + 14);
  CHECK(line_of([&] { x[2]; }) == here + 15);
  CHECK(line_of([&] { x.slice(3, 0); }) == here + 16);
  CHECK(line_of([&] { tt::chunk(x, 2, 3); }) == here + 17);
  CHECK(line_of([&] { tt::cat({x, z}); }) == here + 18);
  CHECK(line_of([&] { x.backward(); }) == here + 19);
  CHECK(line_of([&] { tt::stddev(x, {7}); }) == here + 20);
  CHECK(line_of([&] { tt::topk(x, 9); }) == here + 21);
  CHECK(line_of([&] { x.item(); }) == here + 22);
  // clang-format on
}
