#include <tinytorch/layers/trainable.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>

namespace tt = tinytorch;

TEST_CASE("only distinct floating leaves that require a gradient are trainable") {
  const auto code = [](const tt::NamedTensors& parameters) {
    return message_of([&] { tt::require_trainable(parameters, tt::Loc::current()); }).substr(0, 9);
  };
  const tt::Tensor w = tt::ones({2}).requires_grad_();
  CHECK_NOTHROW(tt::require_trainable({{"w", w}, {"v", tt::ones({2}).requires_grad_()}}, tt::Loc::current()));
  CHECK(code({{"w", w}, {"again", w}}) == "TT-OPT-12");
  CHECK(code({{"w", tt::ones({2})}}) == "TT-OPT-12");
  CHECK(code({{"w", w * 2}}) == "TT-OPT-12");
  CHECK(code({{"w", tt::ones({2}, tt::i64)}}) == "TT-OPT-02");
}

TEST_CASE("a gradient gets the memory layout of its parameter") {
  const tt::Tensor rows = tt::arange(0, 6, 1).to(tt::f32).reshape({2, 3}), columns = rows.t().contiguous().t();
  const tt::Tensor a = tt::with_layout_of(columns, rows, tt::Loc::current());
  CHECK(a.strides() == columns.strides());
  CHECK(a.to_vector() == rows.to_vector());
  CHECK(tt::with_layout_of(rows, columns, tt::Loc::current()).is_contiguous());
}
