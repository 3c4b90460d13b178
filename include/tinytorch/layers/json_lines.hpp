// A log file with one JSON object per line. Each line is written and flushed at once, so a crash loses at
// most the last line.
//
// If a crash cut off the last line of a file, a line break is added before new lines, so that they stay
// readable. Readers skip lines that are not JSON objects, and report them. A resumed run removes the lines
// that it will write again.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <tinytorch/core/error.hpp>
#include <tinytorch/io/json.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// A flat JSON object. Numbers that are not finite become null, because JSON cannot represent them.
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
  // Appends to the file at `path`. With an empty path nothing is written.
  explicit JsonLines(const std::string& path, TT_LOC);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  void write(const JsonObject& object, TT_LOC);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

// The objects of a log, and the numbers, from 1, of the lines that are not JSON objects: cut off by a crash,
// or written by another program.
struct LogLines {
  std::vector<Json> objects{};
  std::vector<size_t> unreadable{};
  // "1 line of the log could not be read: line 7", or "" if all lines could be read.
  std::string note() const;
};
TT_API LogLines read_log(const std::vector<std::string>& lines);
// Throws TT-IO-01 if the file does not exist.
TT_API LogLines load_log(const std::string& path, TT_LOC);

// Removes the lines that a run that continues after `step` will write again (those of later steps), and the
// lines that cannot be read. Returns a sentence about the removed lines, or "" if there are none. A log that
// does not exist is left as it is.
TT_API std::string drop_lines_after(const std::string& path, int64_t step, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)

#include <cmath>
#include <tinytorch/io/file.hpp>

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
  std::fseek(file_, 0, SEEK_END);  // a stream must be repositioned between reading and writing
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

namespace json_lines {

// "1 line", "2 lines"
TT_API std::string count(size_t n) { return std::to_string(n) + (n == 1 ? " line" : " lines"); }

// The JSON object in a line, or null if the line is not a JSON object.
TT_API Json object_of(const std::string& line) {
  try {
    Json json = parse_json(as_bytes(line));
    return json.object() ? json : Json();
  } catch (const Error&) {
    return Json();
  }
}
TT_API bool is_after(const Json& object, int64_t step) {
  const Json* const found = object.find("step");
  return found && found->integer().value_or(step) > step;
}

}  // namespace json_lines

TT_API std::string LogLines::note() const {
  if (unreadable.empty()) return {};
  std::string numbers;
  for (const size_t n : unreadable) numbers += (numbers.empty() ? "" : ", ") + std::to_string(n);
  return json_lines::count(unreadable.size()) + " of the log could not be read: line " + numbers;
}

TT_API LogLines read_log(const std::vector<std::string>& lines) {
  LogLines log;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    Json object = json_lines::object_of(lines[i]);
    if (object.is_null()) {
      log.unreadable.push_back(i + 1);
    } else {
      log.objects.push_back(std::move(object));
    }
  }
  return log;
}
TT_API LogLines load_log(const std::string& path, Loc loc) {
  return read_log(split_lines(as_text(read_file(path, uint64_t{1} << 40, loc))));
}

TT_API std::string drop_lines_after(const std::string& path, int64_t step, Loc loc) {
  if (path.empty() || ::access(path.c_str(), F_OK) != 0) return {};
  std::string kept;
  size_t later = 0, unreadable = 0;
  for (const std::string& line : split_lines(as_text(read_file(path, uint64_t{1} << 40, loc)))) {
    const Json object = json_lines::object_of(line);
    if (object.is_null() && !line.empty()) {
      ++unreadable;
    } else if (json_lines::is_after(object, step)) {
      ++later;
    } else {
      kept += line + "\n";
    }
  }
  if (later + unreadable == 0) return {};
  write_file(path, kept, loc);
  std::string said;
  if (later > 0)
    said = json_lines::count(later) + " of steps after " + std::to_string(step) + ", which this run repeats";
  if (unreadable > 0)
    said += (said.empty() ? "" : ", and ") + json_lines::count(unreadable) + " that could not be read";
  return "dropped from " + path + ": " + said;
}

}  // namespace tinytorch::inline TT_BUILD
#endif
