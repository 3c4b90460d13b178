// The page of a compiled function: well-formed, with the report, a chart of each variant and a picture of
// each graph.
#include <tinytorch/acceleration/compile_page.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <support/svg_elements.hpp>
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;

int64_t charts_of(const std::string& page) {
  return std::ranges::count_if(svg_elements::parse(page.substr(page.find("<html"))),
                               [](const auto& e) { return e.name == "svg"; });
}
}  // namespace

TEST_CASE("the page of a compiled step has its report, the live bytes and a graph of each variant") {
  tt::Linear net(3, 2);
  tt::SGD sgd(net.named_parameters(), {.lr = 0.1});
  auto step = tt::compile_step(
      net, sgd, [](const Tensor& y, const Tensor& t) { return tt::mse_loss(tt::gelu(y) * 2.0, t); },
      {.compile = {.kernels = tt::RegionKernels::interpreted, .strict = true}});
  for (const int64_t n : {4, 4, 7}) step(tt::ones({n, 3}), tt::ones({n, 2}));
  const std::string page = tt::compile_page(step, "Step <1>");
  REQUIRE(page.starts_with("<!doctype html>\n"));
  CHECK(charts_of(page) == 2 + 2);
  CHECK(page.find("<h1>Step &lt;1&gt;</h1>") != std::string::npos);
  CHECK(page.find("kernels") != std::string::npos);
  CHECK(page.find("frontmark") != std::string::npos);  // steps of the derivative
  CHECK(step.graphs().size() == 2);

  auto f = tt::compile([&](const Tensor& x) { return tt::gelu(net(x)) + 1; },
                       {.kernels = tt::RegionKernels::interpreted, .strict = true});
  CHECK(f.graphs().empty());
  f(tt::ones({4, 3}));
  CHECK(f.graphs().size() == 2);  // with its derivative
  CHECK(charts_of(tt::compile_page(f)) == 1 + 2);
}
