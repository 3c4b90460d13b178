#include <tinytorch/layers/json_lines.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <support/errors.hpp>

namespace tt = tinytorch;

namespace {
std::string temporary_name() {
  return (std::filesystem::temp_directory_path() / ("tinytorch-log-" + std::to_string(::getpid()))).string();
}
std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}
}  // namespace

TEST_CASE("another JSON parser reads back every value, including quotes and control characters") {
  tt::JsonObject object;
  object.add("tenth", 0.1).add("n", int64_t{-5}).add("text", std::string("a\"b\\c\n\x01\t"));
  object.add("nothing", std::nan("")).add("tiny", 4.9e-324);
  const auto parsed = nlohmann::json::parse(object.str());
  CHECK(parsed["tenth"].get<double>() == 0.1);
  CHECK(parsed["n"].get<int64_t>() == -5);
  CHECK(parsed["text"].get<std::string>() == "a\"b\\c\n\x01\t");
  CHECK(parsed["nothing"].is_null());
  CHECK(parsed["tiny"].get<double>() == 4.9e-324);
}

TEST_CASE("lines are appended, and a cut-off last line does not damage the next") {
  const std::string path = temporary_name();
  std::filesystem::remove(path);
  { tt::JsonLines(path).write(tt::JsonObject().add("a", int64_t{1})); }
  { std::ofstream(path, std::ios::app) << "{\"a\": 2, \"b"; }
  {
    tt::JsonLines log(path);
    log.write(tt::JsonObject().add("a", int64_t{3}));
    CHECK(lines_of(path).size() == 3);  // flushed before the file is closed
    log.write(tt::JsonObject().add("a", int64_t{4}));
  }
  const auto lines = lines_of(path);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "{\"a\": 1}");
  CHECK(lines[2] == "{\"a\": 3}");
  CHECK(lines[3] == "{\"a\": 4}");
  std::filesystem::remove(path);
}

TEST_CASE("lines that are not objects are skipped, and their numbers reported") {
  const tt::LogLines log =
      tt::read_log({R"({"step": 1})", "", R"({"step": 2, "lo)", "[3]", "\xff\xfe", R"({"step": 4})"});
  REQUIRE(log.objects.size() == 2);
  CHECK(log.objects[1].find("step")->integer() == 4);
  CHECK(log.unreadable == std::vector<size_t>{3, 4, 5});
  CHECK(log.note() == "3 lines of the log could not be read: line 3, 4, 5");
  CHECK(tt::read_log({R"({"a": 1})"}).note().empty());
  CHECK(tt::read_log({"oops"}).note() == "1 line of the log could not be read: line 1");
  CHECK(message_of([] { tt::load_log("/nonexistent/log"); }).rfind("TT-IO-01", 0) == 0);
}

TEST_CASE("drop_lines_after removes later lines and unreadable lines") {
  const std::string path = temporary_name();
  {
    std::ofstream(path) << R"({"step": 1})"
                           "\n"
                           R"({"note": "kept"})"
                           "\n"
                           R"({"step": 2})"
                           "\n"
                           R"({"step": 3})"
                           "\n"
                           R"({"step": 4})"
                           "\n"
                           R"({"step": 5, "l)";
  }
  CHECK(tt::drop_lines_after(path, 2) ==
        "dropped from " + path +
            ": 2 lines of steps after 2, which this run repeats, and 1 line that "
            "could not be read");
  CHECK(lines_of(path) ==
        std::vector<std::string>{R"({"step": 1})", R"({"note": "kept"})", R"({"step": 2})"});
  CHECK(tt::drop_lines_after(path, 2).empty());
  CHECK(tt::drop_lines_after(path, 1) ==
        "dropped from " + path + ": 1 line of steps after 1, which this run repeats");
  std::filesystem::remove(path);
  CHECK(tt::drop_lines_after(path, 1).empty());
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(tt::drop_lines_after("", 1).empty());
}

TEST_CASE("a path that cannot be opened throws; an empty path writes nothing") {
  CHECK(message_of([] { tt::JsonLines log("/nonexistent/folder/log"); }).rfind("TT-IO-02", 0) == 0);
  tt::JsonLines("").write(tt::JsonObject());
}

TEST_CASE("a full disk throws") {
  if (!std::filesystem::exists("/dev/full")) return;
  CHECK(message_of([] {
          tt::JsonLines("/dev/full").write(tt::JsonObject().add("a", 1.0));
        }).rfind("TT-IO-02", 0) == 0);
}
