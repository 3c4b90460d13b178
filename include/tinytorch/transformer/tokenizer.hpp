// Tokenizer: the interface between text and tokens. It guarantees:
//
//   decode(encode(text)) == text     for texts whose characters have tokens
//   0 <= token < vocabulary()
//
// Error codes: TT-TEXT-01 text without a token; -02 a number that is not a token; -03 special tokens; -04 an
// invalid vocabulary or invalid training options; -05 token files and their windows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

using Tokens = std::vector<int32_t>;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual Tokens encode(std::string_view text, TT_LOC) const = 0;
  virtual std::string decode(std::span<const int32_t> tokens, TT_LOC) const = 0;
  // The largest token plus one: the number of rows of an embedding.
  virtual int64_t vocabulary() const = 0;
};

// Throws TT-TEXT-02 for token number `index` of a text to be decoded.
[[noreturn]] inline void fail_unknown_token(const char* who, int32_t token, size_t index, int64_t vocabulary,
                                            Loc loc) {
  fail("TT-TEXT-02",
       std::string(who) + ": " + std::to_string(token) + " at position " + std::to_string(index) +
           " is not a token; this vocabulary has numbers from 0 to " + std::to_string(vocabulary - 1) +
           "\n  hint: decode with the tokenizer that encoded the text",
       loc);
}

}  // namespace tinytorch::inline TT_BUILD
