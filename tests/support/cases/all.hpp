// Every operation of tensor/functions.hpp as rows of OP.
#pragma once

#include <support/cases/attention.hpp>
#include <support/cases/conv.hpp>
#include <support/cases/creation.hpp>
#include <support/cases/elementwise.hpp>
#include <support/cases/index.hpp>
#include <support/cases/loss.hpp>
#include <support/cases/matmul.hpp>
#include <support/cases/norm.hpp>
#include <support/cases/reduce.hpp>
#include <support/cases/shape.hpp>

namespace cases {

inline std::vector<OpCase> all_calls() {
  std::vector<OpCase> all;
  for (const auto& family :
       {creation_calls, unary_cases, binary_cases, elementwise_calls, reduce_calls, shape_calls, index_calls,
        matmul_calls, conv_calls, norm_calls, loss_calls, attention_calls}) {
    for (const OpCase& c : family()) all.push_back(c);
  }
  return all;
}

}  // namespace cases
