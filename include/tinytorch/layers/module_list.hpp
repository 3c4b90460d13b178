// ModuleList: modules of one type in a row, as many as a program wants, each a child of the list.
//
//   struct Decoder : tt::Module {
//     tt::ModuleList<Block> blocks;
//     Decoder(int64_t layers) {
//       add("blocks", blocks);
//       for (int64_t i = 0; i < layers; ++i) blocks.append(Block(64));
//     }
//     tt::Tensor forward(const tt::Tensor& x) override {
//       tt::Tensor y = x;
//       for (Block& block : blocks) y = block(y);
//       return y;
//     }
//   };
//
// Children are named by position: "blocks.0.weight". What applies one after the other is a Sequential.
#pragma once

#include <deque>
#include <tinytorch/layers/module.hpp>

namespace tinytorch::inline TT_BUILD {

template <class M>
class ModuleList : public Module {
 public:
  // Moves a module to the end, where it stays; the reference holds as long as the list.
  M& append(M&& module) {
    modules_.push_back(std::move(module));
    return add(std::to_string(modules_.size() - 1), modules_.back());
  }

  int64_t size() const { return static_cast<int64_t>(modules_.size()); }
  // A position outside [0, size()) is TT-NN-06.
  M& operator[](IndexArg at) {
    if (at.index < 0 || at.index >= size()) {
      fail("TT-NN-06",
           "there is no module " + std::to_string(at.index) + " in a ModuleList of " + std::to_string(size()),
           at.loc);
    }
    return modules_[static_cast<size_t>(at.index)];
  }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }

 private:
  std::deque<M> modules_;  // growing moves none of them
};

}  // namespace tinytorch::inline TT_BUILD
