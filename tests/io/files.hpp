// Helpers of the tests of file formats: the ramp that tests/golden/make_io.py writes, temporary folders, and
// two checks for every reader: truncated files and damaged bytes.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <tinytorch/io/file.hpp>
#include <tree/source_folder.hpp>

namespace files {

namespace tt = tinytorch;

inline std::string golden(const std::string& name) {
  return tinytorch_tree::kSourceFolder + std::string("/tests/golden/io/") + name;
}
inline std::vector<std::byte> golden_bytes(const std::string& name) { return tt::read_file(golden(name)); }

// Ramp k -> (k * 7) % 23 - 5 (non-negative for u8, 0 and 1 for bool), exact in every dtype.
inline double ramp_value(int64_t k, tt::DType dtype) {
  const int64_t v = (k * 7) % 23 - 5;
  if (dtype == tt::u8) return static_cast<double>(v + 5);
  if (dtype == tt::boolean) return static_cast<double>((v % 2 + 2) % 2);
  return static_cast<double>(v);
}
inline tt::Tensor ramp(const tt::Shape& shape, tt::DType dtype) {
  tt::Tensor t = tt::empty(shape, dtype);
  tt::dispatch(dtype, [&]<class T>(T*) {
    for (int64_t k = 0; k < t.numel(); ++k) t.data<T>()[k] = static_cast<T>(ramp_value(k, dtype));
  });
  return t;
}

// The bits of the elements in row-major order, read one by one, independently of the code under test.
inline std::vector<std::byte> bits_of(const tt::Tensor& t) {
  std::vector<std::byte> out;
  tt::dispatch(t.dtype(), [&]<class T>(T*) {
    tt::for_each_element<T>(t.view_of(), [&](const T& value) {
      const auto* raw = reinterpret_cast<const std::byte*>(&value);
      out.insert(out.end(), raw, raw + sizeof(T));
    });
  });
  return out;
}
inline bool same(const tt::Tensor& a, const tt::Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && bits_of(a) == bits_of(b);
}

inline const std::vector<tt::DType>& all_dtypes() {
  static const std::vector<tt::DType> list = {tt::f32, tt::f64, tt::bf16, tt::f16,    tt::i8,
                                              tt::u8,  tt::i32, tt::i64,  tt::boolean};
  return list;
}

// A temporary folder that is removed at the end of the test.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / ("tinytorch-" + std::string(6, 'X'))).string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  size_t count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

struct Refusal {
  std::string code, text;
};
// The error that f throws; an empty code if it throws none. Exceptions other than Error end the test.
template <class F>
Refusal refusal_of(F&& f) {
  try {
    f();
  } catch (const tt::Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Checks that parse(Bytes) accepts `valid` and throws for every proper prefix of it. Each prefix is copied to
// a block of its size, so that AddressSanitizer detects a read past its end.
template <class Parse>
void check_cut_files(const std::vector<std::byte>& valid, Parse&& parse) {
  REQUIRE(refusal_of([&] { parse(valid); }).text == "");
  for (size_t n = 0; n < valid.size(); ++n) {
    const std::vector<std::byte> cut(valid.begin(), valid.begin() + static_cast<std::ptrdiff_t>(n));
    const Refusal refusal = refusal_of([&] { parse(cut); });
    CAPTURE(n);
    REQUIRE(refusal.code.starts_with("TT-IO-"));
    REQUIRE(contains(refusal.text, "expected"));
    REQUIRE(contains(refusal.text, "found"));
  }
}

// Changes one byte at a time and checks that parse() either accepts or throws Error. Returns how often it
// threw.
template <class Parse>
int check_damaged_files(const std::vector<std::byte>& valid, Parse&& parse) {
  int refused = 0;
  for (size_t i = 0; i < valid.size(); ++i) {
    for (const unsigned change : {0x01u, 0x80u, 0xffu}) {
      std::vector<std::byte> damaged = valid;
      damaged[i] ^= static_cast<std::byte>(change);
      const Refusal refusal = refusal_of([&] { parse(damaged); });
      CAPTURE(i);
      REQUIRE((refusal.code.empty() || refusal.code.starts_with("TT-IO-")));
      if (!refusal.code.empty()) ++refused;
    }
  }
  return refused;
}

}  // namespace files
