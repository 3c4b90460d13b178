// Shared by the tokenizer tests: the strings and results of tests/golden/make_tokenizers.py, and unusual
// bytes.
#pragma once

#include <doctest/doctest.h>

#include <random>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/transformer/tokenizer.hpp>
#include <tree/source_folder.hpp>

namespace golden {

namespace tt = tinytorch;

inline std::string path(const std::string& name) {
  return tinytorch_tree::kSourceFolder + std::string("/tests/golden/transformer/") + name;
}

class Strings {
 public:
  // The strings of `file` under the keys PREFIXtext and PREFIXends.
  explicit Strings(const std::string& file = "tokenizers.safetensors", const std::string& prefix = "",
                   size_t count = 12000)
      : tensors_(tt::load_safetensors(path(file))), count_(count) {
    const auto* text = reinterpret_cast<const char*>(tensors_.at(prefix + "text").data<uint8_t>());
    const tt::Tensor& ends = tensors_.at(prefix + "ends");
    int32_t begin = 0;
    for (int64_t i = 0; i < ends.numel(); ++i) {
      const int32_t end = ends.data<int32_t>()[i];
      strings_.emplace_back(text + begin, static_cast<size_t>(end - begin));
      begin = end;
    }
  }
  const std::vector<std::string>& all() const { return strings_; }

  // f(string) must return the numbers whose hashes are stored under `key`.
  template <class F>
  void check(const std::string& key, F&& f) const {
    check_hashes(key, [&](const std::string& text) { return hash_of(f(text)); });
  }
  // f(string) must return the bytes whose hashes are stored under `key`.
  template <class F>
  void check_bytes(const std::string& key, F&& f) const {
    check_hashes(key, [&](const std::string& text) {
      uint32_t hash = 2166136261u;
      for (const char c : f(text)) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
      return hash;
    });
  }

 private:
  template <class F>
  void check_hashes(const std::string& key, F&& hash) const {
    REQUIRE(strings_.size() == count_);
    const int32_t* expected = tensors_.at(key).data<int32_t>();
    int wrong = 0;
    for (size_t i = 0; i < strings_.size(); ++i) {
      if (hash(strings_[i]) == static_cast<uint32_t>(expected[i])) continue;
      INFO(key, ": string ", i, " ", tt::io::in_quotes(strings_[i]));
      CHECK(++wrong == 0);
      if (wrong == 10) return;
    }
    CHECK(wrong == 0);
  }

  static uint32_t hash_of(const tt::Tokens& numbers) {  // FNV-1a over the bytes, little-endian
    uint32_t hash = 2166136261u;
    for (const int32_t number : numbers) {
      for (int shift = 0; shift < 32; shift += 8)
        hash = (hash ^ ((static_cast<uint32_t>(number) >> shift) & 0xff)) * 16777619u;
    }
    return hash;
  }

  tt::TensorMap tensors_;
  size_t count_;
  std::vector<std::string> strings_;
};

// Texts that are not valid UTF-8 or are borderline cases: single bytes, overlong and truncated forms,
// surrogates, codes beyond the last one.
inline std::vector<std::string> awkward_bytes() {
  std::vector<std::string> out = {"",
                                  "\xc0\x80",
                                  "\xc1\xbf",
                                  "\xe0\x80\x80",
                                  "\xe0\x9f\xbf",
                                  "\xf0\x80\x80\x80",
                                  "\xf0\x8f\xbf\xbf",
                                  "\xed\xa0\x80",
                                  "\xed\xbf\xbf",
                                  "\xed\xa0\xbd\xed\xb8\x80",
                                  "\xf4\x90\x80\x80",
                                  "\xf8\x88\x80\x80\x80",
                                  "\xc3",
                                  "\xe2\x82",
                                  "\xf0\x9f\x98",
                                  "a\xc3 b",
                                  "\xf0\x9f\x98\xe2\x82\xac",
                                  "\xff\xfe h",
                                  "\x80\x80\x80",
                                  "caf\xe9 '\xe9t",
                                  " \xff",
                                  "\xff\n\n",
                                  "\xef\xbf\xbf\xf4\x8f\xbf\xbf"};
  for (int b = 0; b < 256; ++b) {
    out.emplace_back(1, static_cast<char>(b));
    out.push_back(std::string("x") + static_cast<char>(b) + static_cast<char>(b) + " ");
  }
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    out.push_back(bytes);
  }
  return out;
}

}  // namespace golden
