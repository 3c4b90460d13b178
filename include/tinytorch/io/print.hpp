// Printing with fmt: fmt::print("{}", t). It needs fmt (link fmt::fmt), so it is not in tinytorch.hpp;
// std::cout << t and to_string(t) need nothing (tensor/ops/to_string.hpp).
#pragma once

#include <fmt/format.h>

#include <tinytorch/tensor/ops.hpp>

template <>
struct fmt::formatter<tinytorch::Tensor> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const tinytorch::Tensor& t, Context& context) const {
    return fmt::formatter<std::string>::format(tinytorch::to_string(t), context);
  }
};
