// ModuleList: a list of modules of one type, each of which is a child of the list.
//
//   struct Decoder : tt::Module {
//     tt::ModuleList<Block> blocks;
//     Decoder() { add("blocks", blocks), blocks.append(Block(64)), blocks.append(Block(64)); }
//     tt::Tensor forward(const tt::Tensor& x) override { return blocks[1](blocks[0](x)); }
//   };
//
// Children are named by position: "blocks.0.weight". A ModuleList has no forward of its own. A Sequential has
// one, and its modules may have different types.
#pragma once

#include <deque>
#include <tinytorch/layers/module.hpp>

namespace tinytorch::inline TT_BUILD {

template <class M>
class ModuleList : public Module {
 public:
  // Moves a module to the end of the list. The returned reference is valid for the lifetime of the list.
  M& append(M&& module) {
    modules_.push_back(std::move(module));
    return add(std::to_string(modules_.size() - 1), modules_.back());
  }

  int64_t size() const { return static_cast<int64_t>(modules_.size()); }
  // A position outside [0, size()) is TT-NN-06.
  M& operator[](IndexArg at) { return modules_[checked(at)]; }
  const M& operator[](IndexArg at) const { return modules_[checked(at)]; }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

 private:
  size_t checked(IndexArg at) const {
    if (at.index < 0 || at.index >= size()) {
      fail("TT-NN-06",
           "there is no module " + std::to_string(at.index) + " in a ModuleList of " + std::to_string(size()),
           at.loc);
    }
    return static_cast<size_t>(at.index);
  }

  std::deque<M> modules_;  // a deque does not move its elements when it grows
};

}  // namespace tinytorch::inline TT_BUILD
