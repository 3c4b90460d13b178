// The numbers of a summary against closed forms; modes and errors.
#include <support/check.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/profiling/summary.hpp>

namespace tt = tinytorch;
using tt::profiling::summary;
using tt::profiling::Summary;

namespace {

struct Net : tt::Module {
  tt::Linear hidden{6, 8}, shared{8, 8}, unused{2, 2}, out{8, 3};
  tt::Dropout dropout{0.5};
  Net() {
    add("hidden", hidden), add("dropout", dropout), add("shared", shared), add("unused", unused),
        add("out", out);
  }
  tt::Tensor forward(const tt::Tensor& x) override { return out(shared(shared(dropout(hidden(x))))); }
};

}  // namespace

TEST_CASE("a row for each module: outputs, calls, parameters and work of a forward pass") {
  Net net;
  net.dropout.eval();
  net.out.bias.requires_grad_(false);
  const Summary s = summary(net, {5, 6});
  REQUIRE(s.rows.size() == 6);
  CHECK(s.rows[0].path == "");
  CHECK(s.rows[0].depth == 0);
  CHECK(s.rows[0].output == tt::Shape{5, 3});
  CHECK(s.rows[1].path == "hidden");
  CHECK(s.rows[1].type.find("Linear") != std::string::npos);
  CHECK(s.rows[1].output == tt::Shape{5, 8});
  CHECK(s.rows[1].parameters == 6 * 8 + 8);
  CHECK(s.rows[3].calls == 2);
  CHECK(s.rows[4].calls == 0);
  const int64_t parameters = 6 * 8 + 8 + 8 * 8 + 8 + 2 * 2 + 2 + 8 * 3 + 3;
  CHECK(s.parameters == parameters);
  CHECK(s.trainable == parameters - 3);
  CHECK(s.bytes == 4 * parameters);
  double inner = 0;
  for (size_t i = 1; i < s.rows.size(); ++i) inner += s.rows[i].cost.flops;
  CHECK(s.cost.flops == inner);
  CHECK(s.rows[0].cost.flops == inner);
  CHECK(s.rows[3].cost.flops >= 2 * 2 * 5 * 8 * 8);
  CHECK(net.training());
  CHECK_FALSE(net.dropout.training());
  const std::string text = s.str();
  for (const char* part : {"(all)", "hidden", "[5, 8]", "not called", "[5, 3]"})
    CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("an input of indices; a wrong input leaves the modes as they were") {
  tt::Embedding table(11, 4);
  const Summary s = summary(table, {2, 3}, tt::i64);
  CHECK(s.rows[0].output == tt::Shape{2, 3, 4});
  CHECK(s.bytes == 11 * 4 * 4);
  Net net;
  CHECK_THROWS_AS(summary(net, {5, 7}), tt::Error);
  CHECK(net.training());
  CHECK(net.dropout.training());
}
