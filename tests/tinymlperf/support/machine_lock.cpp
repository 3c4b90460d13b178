// The lock of the machine: one holder at a time, in this process or another one; others learn who it is.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <sstream>
#include <tinymlperf/support/machine_lock.hpp>
#include <tinymlperf/support/temporary_folder.hpp>

using namespace tinymlperf;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// Another process that holds the lock until it is killed.
class Holder {
 public:
  explicit Holder(const std::filesystem::path& file) {
    int ready[2] = {};
    REQUIRE(pipe(ready) == 0);
    process = fork();
    REQUIRE(process >= 0);
    if (process == 0) {
      const MachineLock lock("playing job 7", file);
      const char held = lock.is_held() ? 'y' : 'n';
      if (write(ready[1], &held, 1) == 1) pause();
      _exit(0);
    }
    char held = 0;
    REQUIRE(read(ready[0], &held, 1) == 1);
    CHECK(held == 'y');
    close(ready[0]), close(ready[1]);
  }
  ~Holder() { end(); }
  void end() {
    if (process <= 0) return;
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
    process = 0;
  }
  pid_t process = 0;
};

}  // namespace

TEST_CASE("the machine's lock has one holder, who is named to the others") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "lock";
  {
    const MachineLock first("playing job 1", file);
    CHECK(first.is_held());
    const MachineLock second("playing job 2", file);
    CHECK_FALSE(second.is_held());
    CHECK(second.holder().find("process " + std::to_string(getpid()) + " of user") == 0);
    CHECK(second.holder().find("playing job 1, since 20") != std::string::npos);
  }
  CHECK(text_of(file).empty());
  CHECK(MachineLock("playing job 3", file).is_held());
}

TEST_CASE("a holder that is killed leaves no lock behind") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "lock";
  Holder other(file);
  {
    const MachineLock lock("mine", file);
    CHECK_FALSE(lock.is_held());
    CHECK(lock.holder().find("process " + std::to_string(other.process)) == 0);
    CHECK(lock.holder().find("playing job 7") != std::string::npos);
  }
  other.end();
  const MachineLock lock("mine", file);
  CHECK(lock.is_held());
  CHECK(text_of(file).find("mine") != std::string::npos);  // not the text of the dead one
}

TEST_CASE("the file of the lock is shared with other users, never a link, and its text is shown clean") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "lock";
  const mode_t mask = umask(077);
  { const MachineLock lock("mine", file); }
  umask(mask);
  CHECK((std::filesystem::status(file).permissions() & std::filesystem::perms::others_write) !=
        std::filesystem::perms::none);
  const auto target = folder.path() / "target", link = folder.path() / "link";
  std::ofstream(target) << "precious";
  std::filesystem::create_symlink(target, link);
  CHECK_THROWS_AS(MachineLock("mine", link), std::runtime_error);
  CHECK(text_of(target) == "precious");
  CHECK_THROWS_AS(MachineLock("mine", folder.path() / "none" / "lock"), std::runtime_error);
  const MachineLock first("mine", file);
  std::ofstream(file) << "\x1b[31mred\n" << std::string(1000, 'x');
  const std::string holder = MachineLock("other", file).holder();
  CHECK(holder.find('\x1b') == std::string::npos);
  CHECK(holder.find('\n') == std::string::npos);
  CHECK(holder.size() <= 420);
}
