// An error inside a module reports the line that called the outermost module, and the path of the innermost
// module.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/module_list.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/attention.hpp>

namespace tt = tinytorch;

namespace {

struct Attention : tt::Module {
  tt::Linear proj{4, 4};
  Attention() { add("proj", proj); }
  tt::Tensor forward(const tt::Tensor& x) override { return proj(x); }
};
struct Block : tt::Module {
  Attention attn;
  Block() { add("attn", attn); }
  tt::Tensor forward(const tt::Tensor& x) override { return attn(x); }
};
struct Model : tt::Module {
  tt::ModuleList<Block> blocks;
  Model() {
    add("blocks", blocks);
    for (int i = 0; i < 4; ++i) blocks.append(Block());
  }
  tt::Tensor forward(const tt::Tensor& x) override { return blocks[3](x); }
};

std::string message_of(auto&& f) {
  try {
    f();
  } catch (const tt::Error& e) {
    return e.what();
  }
  return "";
}
// The name that messages have for the line of this file `back` lines above the caller.
std::string line(int back, int here = __builtin_LINE()) {
  return "layers/errors.cpp:" + std::to_string(here - back);
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("an error in a layer reports its path and the user's line") {
  Model model;
  const std::string message = message_of([&] { model(tt::ones({2, 5})); });
  INFO(message);
  CHECK(message.starts_with("TT-SHAPE-02: linear: "));
  CHECK(has(message, "\n  in blocks.3.attn.proj (Linear)"));
  CHECK(has(message, "\n  at "));
  CHECK(has(message, line(39) + ", in "));  // the nearest line of the user's: where proj is called
  CHECK(has(message, "tinytorch/layers/linear.hpp:"));
}

TEST_CASE("layers of the library inside layers of the library: the user's line is the outermost call") {
  tt::Sequential net(tt::Linear(4, 8), tt::ReLU(), tt::Linear(7, 2));
  const std::string message = message_of([&] { net(tt::ones({2, 4})); });
  INFO(message);
  CHECK(has(message, line(2) + ", in "));
  CHECK(has(message, "\n  in 2 (Linear)"));
}

TEST_CASE("an undefined tensor in a layer") {
  tt::Linear layer(4, 4);
  const std::string message = message_of([&] { layer(tt::Tensor()); });
  INFO(message);
  CHECK(message.starts_with("TT-TENSOR-01: linear: operand 1 is undefined"));
  CHECK(has(message, line(3) + ", in "));
  CHECK(has(message, "\n  in Linear"));
}

TEST_CASE("after an error, and outside of modules, messages name no module") {
  Model model;
  CHECK_THROWS_AS(model(tt::ones({2, 5})), tt::Error);
  const std::string message = message_of([] { tt::matmul(tt::ones({2, 3}), tt::ones({2, 3})); });
  INFO(message);
  CHECK(has(message, line(2)));
  CHECK_FALSE(has(message, "\n  in "));
}

TEST_CASE("a forward with other arguments is named too") {
  tt::SelfAttention attention({.features = 8, .heads = 2});
  const std::string message = message_of([&] {
    attention.forward(tt::ones({1, 3, 7}), tt::SequencePlace{});
  });
  INFO(message);
  CHECK(has(message, "\n  in qkv (Linear)"));
}

TEST_CASE("an error is reported even if a child of the tree was destroyed") {
  struct Holder : tt::Module {
    tt::Linear kept{4, 4};
    Holder() {
      add("kept", kept);
      tt::Linear gone(2, 2);
      add("gone", gone);
    }
    tt::Tensor forward(const tt::Tensor& x) override { return kept(x); }
  };
  Holder holder;
  const std::string message = message_of([&] { holder(tt::ones({2, 5})); });
  INFO(message);
  CHECK(message.starts_with("TT-SHAPE-02: linear: "));
  CHECK(has(message, "(Linear)"));
}
