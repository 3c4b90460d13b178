// A log of JSON objects, one a line: each line is written whole and flushed, so a crash loses at most the
// last.
//
// A file whose last line was cut off by a crash gets a line break first, so that later lines stay readable.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD {

// One flat JSON object. Numbers that are not finite become null: JSON has no word for them.
class JsonObject {
 public:
  JsonObject& add(const std::string& key, double value);
  JsonObject& add(const std::string& key, int64_t value);
  JsonObject& add(const std::string& key, const std::string& value);
  std::string str() const;

 private:
  JsonObject& append(const std::string& key, const std::string& value);
  std::string body_;
};

class JsonLines {
 public:
  // Appends to the file at `path`; an empty path writes nothing.
  explicit JsonLines(const std::string& path, TT_LOC);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  void write(const JsonObject& object, TT_LOC);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)

#include <cmath>
#include <tinytorch/io/file.hpp>
#include <tinytorch/io/json.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API JsonObject& JsonObject::add(const std::string& key, double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return append(key, std::isfinite(value) ? text : "null");
}

TT_API JsonObject& JsonObject::add(const std::string& key, int64_t value) {
  return append(key, std::to_string(value));
}

TT_API JsonObject& JsonObject::add(const std::string& key, const std::string& value) {
  return append(key, to_json_string(value));
}

TT_API std::string JsonObject::str() const { return "{" + body_ + "}"; }

TT_API JsonObject& JsonObject::append(const std::string& key, const std::string& value) {
  body_ += (body_.empty() ? "" : ", ") + to_json_string(key) + ": " + value;
  return *this;
}

TT_API JsonLines::JsonLines(const std::string& path, Loc loc) : path_(path) {
  if (path.empty()) return;
  file_ = std::fopen(path.c_str(), "a+b");
  if (!file_) io::fail_system("TT-IO-02", "open the log", path, loc);
  const bool cut_off = std::fseek(file_, -1, SEEK_END) == 0 && std::fgetc(file_) != '\n';
  std::fseek(file_, 0, SEEK_END);  // between reading and writing a stream must be positioned
  if (cut_off) std::fputc('\n', file_);
}

TT_API JsonLines::~JsonLines() {
  if (file_) std::fclose(file_);
}

TT_API void JsonLines::write(const JsonObject& object, Loc loc) {
  if (!file_) return;
  const std::string line = object.str() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0) {
    io::fail_system("TT-IO-02", "write to the log", path_, loc);
  }
}

}  // namespace tinytorch::inline TT_BUILD
#endif
