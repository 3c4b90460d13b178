// The picture of a graph: well-formed, one row per kernel, an arc per operand that a step made, bars by live
// bytes, and no text that escapes its element.
#include <doctest/doctest.h>

#include <algorithm>
#include <support/svg_elements.hpp>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/graph_chart.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;

int64_t count_of(const std::vector<svg_elements::Element>& all, const std::string& name) {
  return std::ranges::count_if(all, [&](const auto& e) { return e.name == name; });
}
}  // namespace

TEST_CASE("a chart has a row for each kernel, and arcs that jump over views") {
  const Tensor x = tt::ones({4, 6});
  const tt::Captured c = tt::capture(
      [](const tt::Tensors& in) {
        const Tensor a = tt::exp(in[0]);        // row 0, from an argument: no arc
        const Tensor b = tt::matmul(a.t(), a);  // row 1, reads row 0 twice: one arc
        return tt::Tensors{b + 1, tt::sum(a)};  // row 2 from row 1; row 3 from row 0
      },
      {x});
  const std::string text = tt::graph_chart(c.graph, "A <b> & \"c\"");
  const auto all = svg_elements::parse(text);
  CHECK(c.graph.kernels() == 4);
  CHECK(count_of(all, "svg") == 1);
  CHECK(count_of(all, "rect") == 4);
  CHECK(count_of(all, "path") == 3);
  CHECK(count_of(all, "text") == 4 + 2);
  CHECK(text.find("A &lt;b&gt; &amp; &quot;c&quot;") != std::string::npos);
  const std::vector<int64_t> live = tt::liveness(c.graph).timeline();
  double widest = 0;
  for (const auto& e : all)
    if (e.name == "rect") widest = std::max(widest, e.at("width"));
  CHECK(widest == doctest::Approx(90));
  CHECK(text.find(std::to_string(tt::peak(live)) + " live bytes") != std::string::npos);
  for (const char* op : {"exp(", "matmul(", "add(", "sum("}) CHECK(text.find(op) != std::string::npos);
}

TEST_CASE("names of modules are escaped, and a graph without steps has a picture") {
  struct Named : tt::Module {
    tt::Linear inner{3, 3};
    Tensor forward(const Tensor& x) override {
      const tt::Scope scope("a<script>&'");
      return inner(x);
    }
  } net;
  const tt::NoGrad guard;
  const auto f = [&](const tt::Tensors& in) { return tt::Tensors{net(in[0])}; };
  const std::string text = tt::graph_chart(tt::capture(f, {tt::ones({2, 3})}).graph);
  svg_elements::parse(text);
  CHECK(text.find("<script>") == std::string::npos);
  CHECK(text.find("a&lt;script&gt;&amp;&#39;") != std::string::npos);
  const auto none = svg_elements::parse(tt::graph_chart({}));
  CHECK(count_of(none, "svg") == 1);
  CHECK(count_of(none, "rect") == 0);
}
