// C1: what in source somebody should look at, and why. Reasons, not verdicts: an honest one may have
// them, the sandbox holds whatever the source says, and the audits decide. Comments count as well, since what looks like
// one need not be one.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tinymlperf::bundle {

namespace detail {

struct StaticRule {
  const char* what;
  std::vector<std::string_view> words;    // whole identifiers
  std::vector<std::string_view> phrases;  // anywhere in a line
};

inline const auto& static_rules() {
  static const std::array rules{
      StaticRule{"starts other programs",
                 {"fork", "vfork", "execve", "execl", "execvp", "popen", "system", "posix_spawn", "clone"},
                 {}},
      StaticRule{"works in threads, which could go on after an answer",
                 {"thread", "jthread", "pthread_create", "async"},
                 {}},
      StaticRule{"reads a clock; nobody but the judge needs one",
                 {"chrono", "clock", "clock_gettime", "gettimeofday", "rdtsc", "__rdtsc", "times", "clock64",
                  "globaltimer"},
                 {}},
      StaticRule{"looks at where it runs",
                 {"getenv", "setenv", "environ", "getpid", "sysconf"},
                 {"/proc/", "/sys/", "/dev/"}},
      StaticRule{"opens files", {"fopen", "ifstream", "ofstream", "fstream", "open", "openat"}, {}},
      StaticRule{"speaks to a network", {"socket", "connect", "sockaddr", "getaddrinfo"}, {}},
      StaticRule{"loads or makes code", {"dlopen", "dlsym", "mprotect", "memfd_create", "PROT_EXEC"}, {}},
      StaticRule{"holds machine code", {"asm", "__asm__", "__asm"}, {}},
      StaticRule{"reads or writes another's memory", {"ptrace", "process_vm_readv", "process_vm_writev"}, {}},
      StaticRule{"may keep answers", {"cache", "memo", "unordered_map"}, {}},
      StaticRule{"joins names, which hides them from a reader", {}, {"##"}},
      StaticRule{
          "takes in a file from elsewhere", {}, {"#include \"/", "#include </", "#include \"..", "#embed"}}};
  return rules;
}

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

inline bool has_word(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(line[at - 1])) && (end == line.size() || !is_word(line[end]))) return true;
  }
  return false;
}

inline bool applies(const StaticRule& rule, std::string_view line) {
  return std::ranges::any_of(rule.words, [&](std::string_view w) { return has_word(line, w); }) ||
         std::ranges::any_of(rule.phrases, [&](std::string_view p) { return line.find(p) != line.npos; });
}

// A line that is a comment from its first character. One with a quote or the end of another comment may close what began
// lines before it, and run after that.
inline bool is_comment(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  return first != line.npos && line.substr(first).starts_with("//") && line.find('"') == line.npos &&
         line.find("*/") == line.npos;
}

// Numbers that are written out: many of them may be weights, or answers.
inline int64_t literals_in(std::string_view text) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); ++i)
    count += std::isdigit(static_cast<unsigned char>(text[i])) &&
             (i == 0 || !(is_word(text[i - 1]) || text[i - 1] == '.'));
  return count;
}

}  // namespace detail

inline bool is_source_path(std::string_view path) {
  for (const char* end : {".cpp", ".hpp", ".h", ".cu", ".cuh"})
    if (path.ends_with(end)) return true;
  return false;
}

// "plugin.cpp:12: reads a clock ... (3 lines)": one for each rule that applies to a source file.
inline std::vector<std::string> static_reasons(const std::string& path, std::string_view text) {
  constexpr int64_t kManyLiterals = 1000;
  constexpr size_t kLongLine = 1000;
  std::vector<std::string> out;
  if (!is_source_path(path)) return out;
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const auto note = [&](const char* what, auto&& found) {
    const auto first = std::ranges::find_if(lines, found);
    if (first == lines.end()) return;
    const auto all = std::ranges::count_if(lines, found);
    out.push_back(fmt::format("{}:{}: {}{}", path, first - lines.begin() + 1, what,
                              all > 1 ? fmt::format(" ({} lines)", all) : ""));
  };
  for (const detail::StaticRule& rule : detail::static_rules())
    note(rule.what,
         [&](std::string_view line) { return !detail::is_comment(line) && detail::applies(rule, line); });
  note("is too long to be read", [](std::string_view line) { return line.size() > kLongLine; });
  if (const int64_t literals = detail::literals_in(text); literals > kManyLiterals)
    out.push_back(fmt::format("{}: holds {} numbers, which may be weights or answers", path, literals));
  return out;
}

}  // namespace tinymlperf::bundle
