#include <tinytorch/layers/packed_sequence.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/gradients.hpp>
#include <tinytorch/layers/recurrent.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using Numbers = std::vector<int64_t>;

namespace {

Numbers numbers(const Tensor& t) { return t.to_vector<int64_t>(); }
Tensor sequences(tt::DType dtype = tt::i64) {
  return tt::from_data<int64_t>({1, 2, 0, 3, 0, 0, 4, 5, 6}, {3, 3}).to(dtype).to(tt::default_device());
}

}  // namespace

TEST_CASE("packed sequences have the order of torch.nn.utils.rnn, and come back padded") {
  const Numbers lengths{2, 1, 3};
  const auto packed =
      tt::pack_padded_sequence(sequences(), lengths, {.batch_first = true, .enforce_sorted = false});
  CHECK(numbers(packed.data) == Numbers{4, 1, 3, 5, 2, 6});
  CHECK(numbers(packed.batch_sizes) == Numbers{3, 2, 1});
  CHECK(numbers(packed.sorted_indices) == Numbers{2, 0, 1});
  CHECK(numbers(packed.unsorted_indices) == Numbers{1, 2, 0});
  const auto [padded, same] = tt::pad_packed_sequence(packed, {.batch_first = true});
  CHECK(numbers(padded) == numbers(sequences()));
  CHECK(numbers(same) == lengths);
  const auto [longer, still] = tt::pad_packed_sequence(packed, {.padding_value = -1, .total_length = 4});
  CHECK(numbers(longer) == Numbers{1, 3, 4, 2, -1, 5, -1, -1, 6, -1, -1, -1});
  CHECK(numbers(still) == lengths);
  const auto sorted = tt::pack_padded_sequence(sequences().t(), Numbers{3, 3, 1});
  CHECK(numbers(sorted.data) == Numbers{1, 3, 4, 2, 0, 0, 0});
  CHECK_FALSE(sorted.sorted_indices.defined());
}

TEST_CASE("sequences of different lengths are padded, packed and taken apart") {
  const Tensor a = tt::arange(2).to(tt::f32), b = tt::arange(3).to(tt::f32) + 5;
  CHECK(tt::pad_sequence({a, b}, {.batch_first = true, .padding_value = 9}).to_vector() ==
        std::vector<float>{0, 1, 9, 5, 6, 7});
  CHECK(tt::pad_sequence({a, b}).shape() == tt::Shape{3, 2});
  const tt::Tensors back = tt::unpad_sequence(tt::pad_sequence({a, b}), tt::from_data(Numbers{2, 3}));
  CHECK(back[0].to_vector() == a.to_vector());
  CHECK(back[1].to_vector() == b.to_vector());
  CHECK(tt::pack_sequence({b, a}).data.to_vector() == std::vector<float>{5, 0, 6, 1, 7});
  CHECK(tt::pack_sequence({a, b}, false).data.to_vector() == std::vector<float>{5, 0, 6, 1, 7});
  CHECK(tt::pad_sequence({tt::zeros({0, 2}), tt::ones({1, 2})}).shape() == tt::Shape{1, 2, 2});
}

TEST_CASE("recurrent layers give the same values and gradients for packed sequences as with lengths") {
  tt::Generator generator(7);
  const Numbers lengths{2, 5, 1, 4};
  for (const bool first : {false, true}) {
    const tt::RecurrentOptions options{.num_layers = 2, .batch_first = first, .bidirectional = true};
    tt::LSTM lstm(3, 4, options, generator);
    tt::GRU gru(3, 4, options, generator);
    tt::RNN rnn(3, 4, options, generator);
    for (tt::Module* m :
         {static_cast<tt::Module*>(&lstm), static_cast<tt::Module*>(&gru), static_cast<tt::Module*>(&rnn)}) {
      m->to(tt::default_device());
    }
    const tt::Shape shape = first ? tt::Shape{4, 5, 3} : tt::Shape{5, 4, 3};
    const Tensor x = tt::randn(shape, tt::f32, tt::cpu, generator).to(tt::default_device());
    const Tensor list = tt::from_data(lengths).to(x.device());
    const auto check = [&](auto& layer) {
      Tensor plain = x.clone().requires_grad_(), packed = x.clone().requires_grad_();
      const auto with_lengths = layer(plain, {}, list);
      const auto of_packed =
          layer(tt::pack_padded_sequence(packed, lengths, {.batch_first = first, .enforce_sorted = false}));
      const auto [y, same] = tt::pad_packed_sequence(of_packed.output, {.batch_first = first});
      CHECK(y.to_vector() == with_lengths.output.contiguous().to_vector());
      CHECK(numbers(same) == lengths);
      tt::sum(tt::square(with_lengths.output)).backward();
      tt::sum(tt::square(of_packed.output.data)).backward();
      CHECK(packed.grad().to_vector() == plain.grad().to_vector());
    };
    check(lstm), check(gru), check(rnn);
    const auto state = lstm(tt::pack_padded_sequence(x, lengths, {first, false})).state;
    CHECK(state.cell.to_vector() == lstm(x, {}, list).state.cell.to_vector());
  }
}

TEST_CASE("packing has derivatives; invalid lengths and options are errors") {
  const Numbers lengths{2, 1, 3};
  test::check_gradients(
      [&](const tt::Tensors& in) {
        const auto packed = tt::pack_padded_sequence(in[0], lengths, {.enforce_sorted = false});
        return tt::pad_packed_sequence(packed, {.batch_first = true, .total_length = 4}).first;
      },
      {test::leaf({3, 3, 2}, 1)});
  const Tensor x = tt::randn({3, 2, 2}, tt::f64);
  test::expect_error("TT-RANGE-02", "increase", [&] { tt::pack_padded_sequence(x, Numbers{1, 2}); });
  test::expect_error("TT-RANGE-02", "from 1 to 3", [&] { tt::pack_padded_sequence(x, Numbers{4, 2}); });
  test::expect_error("TT-RANGE-02", "from 1 to 3", [&] { tt::pack_padded_sequence(x, Numbers{2, 0}); });
  test::expect_error("TT-SHAPE-02", "lengths", [&] { tt::pack_padded_sequence(x, Numbers{2}); });
  test::expect_error("TT-SHAPE-04", "pack", [&] { tt::pack_padded_sequence(tt::ones({3}), Numbers{2}); });
  test::expect_error("TT-SHAPE-10", "at least one", [&] {
    tt::pack_padded_sequence(tt::ones({3, 0}), Numbers{});
  });
  test::expect_error("TT-SHAPE-10", "at least one", [&] { tt::pad_sequence({}); });
  const auto packed = tt::pack_padded_sequence(x, Numbers{3, 1});
  test::expect_error("TT-RANGE-02", "total_length",
                     [&] { tt::pad_packed_sequence(packed, {.total_length = 2}); });
  test::expect_error("TT-TENSOR-01", "pad_packed_sequence", [&] { tt::pad_packed_sequence({}); });
}
