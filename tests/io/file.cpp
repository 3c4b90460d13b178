// Whole files: reading, size limit, and writing that never leaves a partial file.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tinytorch/io/file.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::refusal_of;
using files::TempFolder;

namespace {

std::string text_of(const std::string& path) {
  const std::vector<std::byte> bytes = tt::read_file(path);
  return std::string(tt::as_text(bytes));
}

}  // namespace

TEST_CASE("a written file is read back, and replaces the old file") {
  const TempFolder folder;
  std::string all(100'003, '\0');
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i * 31 % 251);
  for (const std::string& content : {std::string(), std::string("a"), all}) {
    tt::write_file(folder / "f", content);
    CHECK(text_of(folder / "f") == content);
  }
  CHECK(folder.count() == 1);
}

TEST_CASE("errors for missing files, folders and files above the limit name the path") {
  const TempFolder folder;
  const auto missing = refusal_of([&] { tt::read_file(folder / "no such file"); });
  CHECK(missing.code == "TT-IO-01");
  CHECK(files::contains(missing.text, "no such file': No such file or directory"));
  CHECK(files::contains(missing.text, "file.cpp:"));
  CHECK(refusal_of([&] { tt::read_file(folder / ""); }).code == "TT-IO-01");
  CHECK(refusal_of([&] { tt::write_file(folder / "none/f", "x"); }).code == "TT-IO-02");
  tt::write_file(folder / "f", "12345");
  CHECK(tt::read_file(folder / "f", 5).size() == 5);
  const auto large = refusal_of([&] { tt::read_file(folder / "f", 4); });
  CHECK(large.code == "TT-IO-06");
  CHECK(files::contains(large.text, "at most 4 bytes"));
  CHECK(files::contains(large.text, "found:    5 bytes"));
}

TEST_CASE("a file that reports no size is read to its end") {
  const std::vector<std::byte> status = tt::read_file("/proc/self/status");
  CHECK(files::contains(std::string(tt::as_text(status)), "Pid:"));
  CHECK(refusal_of([] { tt::read_file("/proc/self/status", 10); }).code == "TT-IO-06");
}

TEST_CASE("an exception between write() and commit() keeps the old file and removes the temporary file") {
  const TempFolder folder;
  tt::write_file(folder / "model", "old content");
  try {
    tt::AtomicFile file(folder / "model");
    file.write("half of the new con");
    CHECK(text_of(folder / "model") == "old content");
    throw 1;
  } catch (int) {
  }
  CHECK(text_of(folder / "model") == "old content");
  CHECK(folder.count() == 1);
}

TEST_CASE("if a process is killed while it writes, the old file remains") {
  const TempFolder folder;
  tt::write_file(folder / "model", "old content");
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    tt::AtomicFile file(folder / "model");
    file.write("half of the new con");
    (void)!write(ready[1], "x", 1);
    while (true) pause();
  }
  char c = 0;
  REQUIRE(read(ready[0], &c, 1) == 1);
  REQUIRE(kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  close(ready[0]);
  close(ready[1]);
  CHECK(WIFSIGNALED(status));
  CHECK(text_of(folder / "model") == "old content");
  CHECK(folder.count() == 2);  // the partial file has a temporary name
  tt::write_file(folder / "model", "new content");
  CHECK(text_of(folder / "model") == "new content");
}

TEST_CASE("require_writable() tests if a file can be written, and does not write it") {
  const TempFolder folder;
  tt::write_file(folder / "model", "old content");
  tt::require_writable(folder / "model");
  tt::require_writable(folder / "new");
  CHECK(folder.count() == 1);
  CHECK(text_of(folder / "model") == "old content");
  CHECK(refusal_of([&] { tt::require_writable(folder / "none/model"); }).code == "TT-IO-02");
  CHECK(refusal_of([&] { tt::require_writable(folder / ""); }).code == "TT-IO-02");
}

TEST_CASE("a failed write is reported and keeps the old file") {
  const TempFolder folder;
  tt::write_file(folder / "model", "old content");
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, SIG_IGN);  // write() then fails for a file above the limit
  rlimit small = before;
  small.rlim_cur = 16;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto refusal = refusal_of([&] { tt::write_file(folder / "model", "new content, too long"); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(refusal.code == "TT-IO-02");
  CHECK(files::contains(refusal.text, "model': File too large"));
  CHECK(text_of(folder / "model") == "old content");
  CHECK(folder.count() == 1);
}
