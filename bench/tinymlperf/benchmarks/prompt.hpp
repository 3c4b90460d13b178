// A prompt that a contender continues, token by token, by the likeliest.
//
// A query has two tensors of it: its text, u8 [1, T], and the number of tokens, i64 [1]. With a salt there is
// a third one, u8 [S]: whatever the contender keeps of the prompt may serve later prompts of the same salt,
// and no others. Each token is one u8, and the answer is all of them.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tinymlperf/channel/tensor.hpp>
#include <vector>

namespace tinymlperf::judge {

struct Prompt {
  std::string text;
  int64_t tokens = 0;
  std::string salt = {};  // empty: nothing may be kept
};

// u8 of this shape.
inline channel::Tensor byte_tensor(std::string_view bytes, std::vector<int64_t> shape) {
  const std::vector<uint8_t> values(bytes.begin(), bytes.end());
  return channel::make_tensor<uint8_t>(channel::DType::u8, std::move(shape), values);
}

inline channel::Tensors to_tensors(const Prompt& p) {
  const int64_t count[] = {p.tokens};
  channel::Tensors out{byte_tensor(p.text, {1, std::ssize(p.text)}),
                       channel::make_tensor<int64_t>(channel::DType::i64, {1}, count)};
  if (!p.salt.empty()) out.push_back(byte_tensor(p.salt, {std::ssize(p.salt)}));
  return out;
}

// The continuation by `tokens` tokens. Throws std::runtime_error unless so many were streamed and equal the
// answer.
inline std::string continuation_of(int64_t tokens, const std::vector<channel::Tensors>& streamed,
                                   const channel::Tensors& answer) {
  const auto holds = [](const channel::Tensors& t, size_t count) {
    return t.size() == 1 && t[0].dtype == channel::DType::u8 && t[0].bytes.size() == count;
  };
  if (!holds(answer, static_cast<size_t>(tokens)))
    throw std::runtime_error("a generation must end with one u8 tensor of " + std::to_string(tokens) +
                             " bytes");
  const auto bytes = answer[0].values<uint8_t>();
  if (streamed.size() != bytes.size())
    throw std::runtime_error("a generation must stream " + std::to_string(bytes.size()) +
                             " tokens, one by one, found " + std::to_string(streamed.size()));
  for (size_t i = 0; i < bytes.size(); ++i)
    if (!holds(streamed[i], 1) || streamed[i][0].values<uint8_t>()[0] != bytes[i])
      throw std::runtime_error("token " + std::to_string(i + 1) +
                               ": expected the byte of the answer that ends the generation");
  return {bytes.begin(), bytes.end()};
}

}  // namespace tinymlperf::judge
