// Sequential: modules that are applied in order. y = f_n(... f_2(f_1(x)))
//
//   tt::Sequential net(tt::Linear(784, 128), tt::ReLU(), tt::Linear(128, 10));
//
// Children are named by position: "0.weight", "2.bias".
#pragma once

#include <memory>
#include <tinytorch/layers/module.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD {

class Sequential : public Module {
 public:
  // Takes each module by move, or as a shared_ptr, which shares it.
  template <class... Modules>
  requires(sizeof...(Modules) > 1 || (!std::is_same_v<std::remove_cvref_t<Modules>, Sequential> &&
                                      ...)) explicit Sequential(Modules&&... modules) {
    (append(std::forward<Modules>(modules)), ...);
  }
  Sequential() = default;

  template <class M>
  Sequential& append(M&& module) {
    if constexpr (requires { module->forward(Tensor{}); }) {
      return append_shared(std::forward<M>(module));
    } else {
      static_assert(
          !std::is_lvalue_reference_v<M>,
          "Sequential takes modules by move: write Linear(2, 3) in place, std::move(layer), or a shared_ptr");
      return append_shared(std::make_shared<std::remove_cvref_t<M>>(std::forward<M>(module)));
    }
  }

  template <class M>
  Sequential& push_back(M&& module) {  // the name that std::vector and PyTorch's C++ API have
    return append(std::forward<M>(module));
  }

  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const auto& layer : layers_) y = (*layer)(y);
    return y;
  }

  int64_t size() const { return static_cast<int64_t>(layers_.size()); }
  Module& operator[](int64_t i) { return *layers_.at(static_cast<size_t>(i)); }

 private:
  Sequential& append_shared(std::shared_ptr<Module> module) {
    layers_.push_back(add(std::to_string(layers_.size()), std::move(module)));
    return *this;
  }
  std::vector<std::shared_ptr<Module>> layers_;
};

}  // namespace tinytorch::inline TT_BUILD
