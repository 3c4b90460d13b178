// The cache of compiled kernels: damaged entries, killed and competing processes, folders that are not ours,
// full disks.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <tinytorch/acceleration/kernel_cache.hpp>

namespace {
using namespace tinytorch;
using namespace tinytorch::acceleration;
namespace fs = std::filesystem;

struct TemporaryFolder {
  std::string path = (fs::temp_directory_path() / "tinytorch-test-XXXXXX").string();
  TemporaryFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
};

std::string key_of(std::string_view text) {
  Sha256 sum;
  sum.add(text);
  return sum.hex();
}
void write(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }
// Builds and publishes an entry, as the holder of the lock.
bool publish(KernelCache& cache, const std::string& key, std::string_view content = "code") {
  const auto lock = cache.lock(key);
  if (!lock) return false;
  const std::string folder = cache.building(key);
  if (folder.empty()) return false;
  write(folder + "/source.cpp", "source");
  write(folder + "/kernel.so", content);
  return cache.publish(key, "usable");
}
// The exit status of a child that runs f; -1 if a signal ended it.
template <class F>
int in_child(F&& f) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(f());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
}  // namespace

TEST_CASE("an entry is found as it was published, also by another object") {
  const TemporaryFolder folder;
  const std::string key = key_of("a");
  {
    KernelCache cache(folder.path + "/v1");
    REQUIRE(cache.usable());
    CHECK(!cache.find(key));
    CHECK(publish(cache, key));
    CHECK(cache.find(key) == "usable");
    CHECK(!cache.find(key_of("b")));
  }
  KernelCache again(folder.path + "/v1");
  CHECK(again.find(key) == "usable");
  CHECK(again.bad_entries() == 0);
}

TEST_CASE("a damaged entry is moved aside and can be built again") {
  const TemporaryFolder folder;
  KernelCache cache(folder.path + "/v1");
  const std::string key = key_of("a"), entry = cache.entry(key);
  int damaged = 0;
  const auto damage = [&](const std::string& file, auto&& change) {
    REQUIRE(publish(cache, key, std::string(5000, 'x')));
    std::string text;
    {
      std::ifstream in(entry + "/" + file, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
    change(text);
    write(entry + "/" + file, text);
    INFO(file, " ", damaged);
    CHECK(!cache.find(key));
    CHECK(cache.bad_entries() == ++damaged);
    CHECK(!fs::exists(entry));
    CHECK(fs::exists(entry + ".bad"));
  };
  for (const char* file : {"source.cpp", "kernel.so", "meta.json"}) {
    damage(file, [](std::string& text) { text.resize(text.size() / 2); });
    damage(file, [](std::string& text) { text[text.size() / 3] ^= 1; });
    damage(file, [](std::string& text) { text.clear(); });
  }
  damage("kernel.so", [](std::string& text) { text += "more"; });
  damage("meta.json", [](std::string& text) { text.replace(text.find("usable"), 6, "usuble"); });
  REQUIRE(publish(cache, key));
  fs::remove(entry + "/kernel.so");
  CHECK(!cache.find(key));
  REQUIRE(publish(cache, key));
  CHECK(cache.find(key) == "usable");
}

TEST_CASE("two processes that want a kernel build it once") {
  const TemporaryFolder folder;
  const std::string root = folder.path + "/v1", key = key_of("race");
  pid_t children[4];
  for (pid_t& child : children) {
    child = ::fork();
    if (child != 0) continue;
    KernelCache cache(root);
    const auto lock = cache.lock(key);
    if (!lock) ::_exit(3);
    if (cache.find(key)) ::_exit(0);  // found
    const std::string built = cache.building(key);
    write(built + "/source.cpp", "s");
    ::usleep(50'000);
    write(built + "/kernel.so", "k");
    ::_exit(cache.publish(key, "usable") ? 1 : 2);
  }
  int counts[4] = {};
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFEXITED(status));
    ++counts[WEXITSTATUS(status)];
  }
  CHECK(counts[1] == 1);
  CHECK(counts[0] == 3);
}

TEST_CASE("a process that is killed while it builds leaves nothing that is used") {
  const TemporaryFolder folder;
  const std::string root = folder.path + "/v1", key = key_of("killed");
  const int status = in_child([&] {
    KernelCache cache(root);
    const auto lock = cache.lock(key);
    const std::string built = cache.building(key);
    write(built + "/source.cpp", "half");
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  CHECK(status == -1);
  KernelCache cache(root);
  CHECK(fs::exists(cache.entry(key) + ".new"));
  CHECK(!cache.find(key));
  CHECK(publish(cache, key));
  CHECK(cache.find(key) == "usable");
  CHECK(!fs::exists(cache.entry(key) + ".new"));
}

TEST_CASE("a folder that is open to others is not used") {
  const TemporaryFolder folder;
  const std::string root = folder.path + "/v1", key = key_of("a");
  {
    KernelCache cache(root);
    REQUIRE(publish(cache, key));
  }
  ::chmod(root.c_str(), 0777);
  {
    KernelCache cache(root);
    CHECK(!cache.usable());
    CHECK(cache.problem().find("0700") != std::string::npos);
    CHECK(!cache.find(key));
    CHECK(!cache.lock(key));
  }
  ::chmod(root.c_str(), 0700);
  KernelCache cache(root);
  CHECK(cache.find(key) == "usable");
  ::chmod(cache.entry(key).c_str(), 0777);  // somebody may have changed its files
  CHECK(!cache.find(key));
  // A link instead of a folder could lead anywhere.
  fs::create_directory_symlink(root, folder.path + "/link");
  CHECK(!KernelCache(folder.path + "/link").usable());
  if (::geteuid() == 0) {
    REQUIRE(::chown(root.c_str(), 12345, 12345) == 0);
    CHECK(!KernelCache(root).usable());
  }
}

TEST_CASE("a folder that cannot be written, and none") {
  CHECK(!KernelCache("").usable());
  CHECK(!KernelCache("/proc/tinytorch/v1").usable());
  const TemporaryFolder folder;
  write(folder.path + "/file", "text");
  CHECK(!KernelCache(folder.path + "/file").usable());
  const std::string root = folder.path + "/v1";
  KernelCache cache(root);
  const std::string key = key_of("read only");
  REQUIRE(publish(cache, key));
  ::chmod(root.c_str(), 0500);
  CHECK(cache.find(key) == "usable");
  if (::geteuid() != 0) CHECK(!cache.lock(key_of("another")));  // root may write everywhere
  ::chmod(root.c_str(), 0700);
}

TEST_CASE("a full disk: nothing is published, and the entry that was there stays") {
  const TemporaryFolder folder;
  const std::string root = folder.path + "/v1", kept = key_of("kept"), key = key_of("large");
  KernelCache cache(root);
  REQUIRE(publish(cache, kept));
  // A file may have 64 bytes: the note is longer.
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return publish(cache, key) ? 1 : 0;
  });
  CHECK(status == 0);
  CHECK(!cache.find(key));
  CHECK(!fs::exists(cache.entry(key) + ".new"));
  CHECK(cache.find(kept) == "usable");
  CHECK(publish(cache, key));
}

TEST_CASE("what was not used for the longest time makes room") {
  const TemporaryFolder folder;
  KernelCache cache(folder.path + "/v1", 10'000);
  const std::string a = key_of("a"), b = key_of("b"), c = key_of("c");
  const std::string large(4000, 'x');
  const auto age = [&](const std::string& key, int seconds) {
    fs::last_write_time(cache.entry(key) + "/meta.json",
                        fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  };
  REQUIRE(publish(cache, a, large));
  REQUIRE(publish(cache, b, large));
  age(a, 200), age(b, 100);
  CHECK(cache.find(a) == "usable");  // now b is the oldest
  REQUIRE(publish(cache, c, large));
  CHECK(cache.find(a) == "usable");
  CHECK(!cache.find(b));
  CHECK(cache.find(c) == "usable");
  // An entry that alone is too large stays, because its builder uses it.
  REQUIRE(publish(cache, b, std::string(20'000, 'x')));
  CHECK(cache.find(b) == "usable");
  CHECK(!cache.find(a));
}

TEST_CASE("the folder by the environment") {
  const char* const before = std::getenv("TINYTORCH_KERNEL_CACHE");
  const std::string saved = before ? before : "";
  ::setenv("TINYTORCH_KERNEL_CACHE", "0", 1);
  CHECK(KernelCache::default_folder().empty());
  ::setenv("TINYTORCH_KERNEL_CACHE", "/somewhere", 1);
  CHECK(KernelCache::default_folder() == "/somewhere");
  before ? ::setenv("TINYTORCH_KERNEL_CACHE", saved.c_str(), 1) : ::unsetenv("TINYTORCH_KERNEL_CACHE");
}
