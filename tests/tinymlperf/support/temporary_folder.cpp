// A temporary folder ends with its owner, even with one that is killed.
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <tinymlperf/support/temporary_folder.hpp>

using namespace tinymlperf;
namespace fs = std::filesystem;

TEST_CASE("a folder is gone with its object, or stays under another name") {
  fs::path path;
  const TemporaryFolder parent;
  {
    const TemporaryFolder one(parent.path());
    path = one.path();
    std::ofstream(one / "file") << "text";
    CHECK(fs::exists(path / "file"));
  }
  CHECK_FALSE(fs::exists(path));
  {
    TemporaryFolder one(parent.path());
    std::ofstream(one / "file") << "text";
    one.become(parent / "kept");
  }
  CHECK(fs::exists(parent / "kept/file"));
}

TEST_CASE("folders of a process that was killed are removed; those that have an owner or are new stay") {
  using std::chrono::seconds;
  const TemporaryFolder parent;
  const TemporaryFolder own(parent.path());
  const auto count = [&] { return std::distance(fs::directory_iterator(parent.path()), {}); };
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t worker = fork();
  if (worker == 0) {
    const TemporaryFolder left(parent.path());
    std::ofstream(left / "weights") << "text";
    (void)!write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(count() == 2);
  CHECK(remove_abandoned_folders(parent.path(), seconds(0)) == 0);  // both owners live
  kill(worker, SIGKILL);
  waitpid(worker, nullptr, 0);
  CHECK(remove_abandoned_folders(parent.path()) == 0);  // it is new
  fs::create_directory(parent / "tinymlperf-mine");     // another kind of name
  fs::create_directory_symlink(own.path(), parent / "tinymlperf-linked");
  CHECK(remove_abandoned_folders(parent.path(), seconds(0)) == 1);
  CHECK(count() == 3);
  CHECK(fs::exists(own.path()));
  close(ready[0]), close(ready[1]);
}
