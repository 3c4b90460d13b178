// SHA-256 digests as 64 hexadecimal digits. Files with the same digest are treated as the same file.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tinymlperf::bundle {

inline std::string hexadecimal(const unsigned char* bytes, size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

inline std::string sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL cannot compute a SHA-256 digest");
  return hexadecimal(digest.data(), size);
}

inline bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace tinymlperf::bundle
