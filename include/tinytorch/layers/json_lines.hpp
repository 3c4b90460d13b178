// A log of JSON objects, one a line: each line is written whole and flushed, so a crash loses at most the
// last.
//
// A file whose last line was cut off by a crash gets a line break first, so that later lines stay readable.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD {

// One flat JSON object. Numbers that are not finite become null: JSON has no word for them.
class JsonObject {
 public:
  JsonObject& add(const std::string& key, double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    return append(key, std::isfinite(value) ? text : "null");
  }
  JsonObject& add(const std::string& key, int64_t value) { return append(key, std::to_string(value)); }
  JsonObject& add(const std::string& key, const std::string& value) { return append(key, quote(value)); }
  std::string str() const { return "{" + body_ + "}"; }

  static std::string quote(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      const auto code = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (code < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(code));
        out += escape;
      } else {
        out += c;
      }
    }
    return out + "\"";
  }

 private:
  JsonObject& append(const std::string& key, const std::string& value) {
    body_ += (body_.empty() ? "" : ", ") + quote(key) + ": " + value;
    return *this;
  }
  std::string body_;
};

class JsonLines {
 public:
  // Appends to the file at `path`; an empty path writes nothing.
  explicit JsonLines(const std::string& path, TT_LOC) : path_(path) {
    if (path.empty()) return;
    file_ = std::fopen(path.c_str(), "a+b");
    if (!file_) fail("TT-IO-01", "cannot open the log " + path + " for writing", loc);
    if (std::fseek(file_, -1, SEEK_END) == 0 && std::fgetc(file_) != '\n') {
      std::fseek(file_, 0, SEEK_END);
      std::fputc('\n', file_);
    }
  }
  ~JsonLines() {
    if (file_) std::fclose(file_);
  }
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  void write(const JsonObject& object, TT_LOC) {
    if (!file_) return;
    const std::string line = object.str() + "\n";
    if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0) {
      fail("TT-IO-02", "cannot write to the log " + path_ + "\n  hint: is the disk full?", loc);
    }
  }

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace tinytorch::inline TT_BUILD
