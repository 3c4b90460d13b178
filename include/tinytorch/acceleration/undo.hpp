// Undoes the side effects of a run under a recorder: after a run that failed, or that was only a trial,
// written tensors and the default generator are as before.
#pragma once

#include <tinytorch/acceleration/graph.hpp>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/tensor/observer.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Puts back what was overwritten.
inline void restore(const std::vector<WrittenTensor>& written) {
  OpObserver* const observer = std::exchange(op_observer(), nullptr);
  const NoGrad guard;
  for (const WrittenTensor& w : written) Tensor(w.place).copy_(w.before);
  op_observer() = observer;
}

// Moves the default generator back at the end of the C++ scope, unless keep() was called: a run that failed
// has drawn no numbers.
class GeneratorUse {
 public:
  GeneratorUse() = default;
  ~GeneratorUse() {
    if (!kept_) default_generator().set_state(before_);
  }
  GeneratorUse(const GeneratorUse&) = delete;
  GeneratorUse& operator=(const GeneratorUse&) = delete;
  void keep() { kept_ = true; }

 private:
  GeneratorState before_ = default_generator().state();
  bool kept_ = false;
};

}  // namespace tinytorch::inline TT_BUILD
