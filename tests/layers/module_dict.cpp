#include <tinytorch/layers/module_dict.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <support/errors.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tinytorch.hpp>
#include <utility>
#include <vector>

namespace tt = tinytorch;
using errors::thrown_by;

TEST_CASE("modules of a ModuleDict are children under their names, in order of insertion") {
  struct Net : tt::Module {
    tt::ModuleDict heads;
    Net() {
      add("heads", heads);
      heads.add("wide", tt::Linear(2, 5));
      heads.add("narrow", std::make_shared<tt::Linear>(2, 1, false));
      heads.add("act", tt::ReLU());
    }
  };
  Net net;
  CHECK(net.heads.keys() == std::vector<std::string>{"wide", "narrow", "act"});
  CHECK(net.heads.size() == 3);
  CHECK(net.heads.contains("act"));
  CHECK(!net.heads.contains("relu"));
  const tt::NamedTensors parameters = net.named_parameters();
  REQUIRE(parameters.size() == 3);
  CHECK(parameters[0].name == "heads.wide.weight");
  CHECK(parameters[2].name == "heads.narrow.weight");
  CHECK(parameters[2].tensor.impl() == net.heads.at<tt::Linear>("narrow").weight.impl());
  CHECK(net.heads["wide"](tt::ones({3, 2})).shape() == tt::Shape{3, 5});
  net.eval();
  for (const auto& [name, module] : net.heads) CHECK(!module->training());
  Net moved(std::move(net));
  CHECK(moved.named_parameters().size() == 3);
  CHECK(moved.heads["narrow"](tt::ones({3, 2})).shape() == tt::Shape{3, 1});
}

TEST_CASE("a ModuleDict refuses names that are taken, empty or missing, and other types") {
  tt::ModuleDict dict;
  tt::Linear& layer = dict.add("a", tt::Linear(2, 3));
  CHECK(&layer == &dict["a"]);
  CHECK(thrown_by([&] { dict.add("a", tt::Linear(2, 3)); }).code == "TT-NN-02");
  CHECK(thrown_by([&] { dict.add("", tt::Linear(2, 3)); }).code == "TT-NN-02");
  CHECK(dict.size() == 1);
  CHECK(thrown_by([&] { dict["b"]; }).code == "TT-NN-06");
  CHECK(thrown_by([&] { dict.at<tt::ReLU>("a"); }).code == "TT-NN-06");
}
