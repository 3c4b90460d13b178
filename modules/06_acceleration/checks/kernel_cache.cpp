#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <support/check.hpp>
#include <tinytorch/acceleration/kernel_cache.hpp>

using namespace course;
using namespace tinytorch::acceleration;
namespace fs = std::filesystem;

namespace {

struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    std::error_code error;
    fs::path where = fs::temp_directory_path(error);
    if (error || ::access(where.c_str(), W_OK) != 0) where = fs::current_path();
    path = (where / "tt-check-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("there is no folder for temporary files");
  }
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  std::string cache() const { return path + "/kernels"; }
};

const std::string kA(64, 'a'), kB(64, 'b'), kC = "aa" + std::string(62, 'c');  // a and c share a folder
using Note = std::optional<std::string>;

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }
// Builds and publishes an entry, as the holder of the lock.
bool publish(KernelCache& cache, const std::string& key, std::string_view code = "code",
             const std::string& note = "usable") {
  const auto lock = cache.lock(key);
  if (!lock) return false;
  const std::string folder = cache.building(key);
  if (folder.empty()) return false;
  write(folder + "/source.cpp", "source");
  write(folder + "/kernel.so", code);
  return cache.publish(key, note);
}
std::string shown(const Note& note) { return note ? "\"" + *note + "\"" : "nothing"; }
void expect_note(const std::string& what, const Note& got, const Note& want) {
  count_a_check();
  if (got != want) not_equal(what, shown(want), shown(got));
}
// The exit status of a child that runs f; -1 if a signal ended it.
template <class F>
int in_child(F&& f) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    int status = 99;
    try {
      status = f();
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
bool exists(const std::string& path) { return fs::exists(fs::symlink_status(path)); }

}  // namespace

TEST_CASE("6.15 a key depends on each text, on their order and on where one ends") {
  using Texts = std::vector<std::string>;
  const Texts texts = {"g++ 12", "x86-64 avx2", "float f();", "-O3", "-ffp-contract=off"};
  const std::string key = kernel_key(texts);
  expect("64 hexadecimal digits: " + key,
         key.size() == 64 && key.find_first_not_of("0123456789abcdef") == std::string::npos);
  expect_equal("the same texts again", kernel_key(Texts(texts)), key);
  std::set<std::string> keys = {key};
  size_t others = 1;
  const auto other = [&](const Texts& t) { keys.insert(kernel_key(t)), ++others; };
  for (size_t k = 0; k < texts.size(); ++k) {
    Texts changed = texts;
    changed[k].back() ^= 1;
    other(changed);
    changed = texts, changed[k].clear();
    other(changed);
    changed = texts, changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(k));
    other(changed);
    if (k == 0) continue;
    changed = texts, std::swap(changed[k], changed[0]);
    other(changed);
    changed = texts, changed[k - 1] += changed[k][0], changed[k].erase(0, 1);
    other(changed);
  }
  other({"-O3\n-g"}), other({"-O3", "-g"}), other({"-O3\n", "-g"}), other({"-O3-g"}), other({"-O3-g", ""});
  other({}), other({""}), other({"", ""}), other({std::string(1, '\0')}), other({"a,1:b"}), other({"a", "b"});
  other({std::string(1, '\0'), "a"}), other({std::string("\0a", 2)});
  expect_equal("keys of different texts are different", keys.size(), others);
}

TEST_CASE("6.15 an entry is found as it was published, also by another process") {
  const TemporaryFolder folder;
  {
    KernelCache cache(folder.cache());
    expect("the cache is usable: " + cache.problem(), cache.usable());
    expect_note("find before anything was published", cache.find(kA), {});
    expect("publish succeeds", publish(cache, kA, "code of a", "usable"));
    expect("publish of another key succeeds", publish(cache, kC, "code of c", "slower"));
    expect_note("the note", cache.find(kA), "usable");
    expect_note("the note of the other key", cache.find(kC), "slower");
    expect_note("a key that was not published", cache.find(kB), {});
  }
  KernelCache again(folder.cache());
  expect_note("the note", again.find(kA), "usable");
  expect_equal("the file is in the entry", read(again.entry(kA) + "/kernel.so"), std::string("code of a"));
  expect("nothing is left in the folder where it was built", !exists(again.entry(kA) + ".new"));
  expect_equal("damaged entries", again.bad_entries(), 0);
  expect("a key is published again", publish(again, kA, "new code", "slower"));
  expect_note("the new note", again.find(kA), "slower");
  expect_equal("the new file", read(again.entry(kA) + "/kernel.so"), std::string("new code"));
}

TEST_CASE("6.15 a damaged entry is moved aside, and can be built again") {
  const TemporaryFolder folder;
  KernelCache cache(folder.cache());
  const std::string entry = cache.entry(kA);
  int damaged = 0;
  const auto damage = [&](const std::string& file, const std::string& how, auto&& change) {
    expect("publish succeeds, before " + file + " is damaged", publish(cache, kA, std::string(500, 'x')));
    std::string text = read(entry + "/" + file);
    change(text);
    write(entry + "/" + file, text);
    expect_note("find, after " + file + " was " + how, cache.find(kA), {});
    expect_equal("damaged entries, after " + file + " was " + how, cache.bad_entries(), ++damaged);
    expect("the entry is not there any more", !exists(entry));
  };
  for (const char* file : {"source.cpp", "kernel.so", "meta.json"}) {
    damage(file, "cut", [](std::string& text) { text.resize(text.size() / 2); });
    damage(file, "changed in one bit", [](std::string& text) { text[text.size() / 3] ^= 1; });
    damage(file, "emptied", [](std::string& text) { text.clear(); });
  }
  expect("publish succeeds", publish(cache, kA));
  fs::remove(entry + "/kernel.so");
  expect_note("find without kernel.so", cache.find(kA), {});
  expect("publish succeeds after that", publish(cache, kA));
  expect_note("the entry that was built again", cache.find(kA), "usable");
}

TEST_CASE("6.15 a process that is killed leaves nothing that is found") {
  const TemporaryFolder folder;
  const int status = in_child([&] {
    KernelCache cache(folder.cache());
    const auto lock = cache.lock(kA);
    const std::string built = cache.building(kA);
    write(built + "/source.cpp", "half");
    fs::create_directory(built + "/more");
    write(built + "/more/rest", "of a compiler");
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  expect_equal("the process was killed", status, -1);
  KernelCache cache(folder.cache());
  expect_note("find", cache.find(kA), {});
  expect_equal("damaged entries", cache.bad_entries(), 0);
  const std::string built = cache.building(kA);
  expect("building() gives a folder", exists(built));
  expect("the folder is empty", fs::is_empty(built));
  struct stat info {};
  expect("nobody else may enter it", ::stat(built.c_str(), &info) == 0 && (info.st_mode & 0777) == 0700);
  expect("the entry can be built", publish(cache, kA));
  expect_note("find", cache.find(kA), "usable");
}

TEST_CASE("6.15 what fails to be published changes nothing") {
  const TemporaryFolder folder;
  KernelCache cache(folder.cache());
  expect("publish succeeds", publish(cache, kA));
  {
    const auto lock = cache.lock(kA);
    write(cache.building(kA) + "/source.cpp", "a source without a kernel");
    expect("publish without kernel.so fails", !cache.publish(kA, "usable"));
  }
  expect("what was built is removed", !exists(cache.entry(kA) + ".new"));
  expect_note("the entry that was there stays", cache.find(kA), "usable");
  expect("publish of what was never built fails", !cache.publish(kB, "usable"));
  const int full = in_child([&] {  // a file may have 64 bytes, as if the disk were full: meta.json is longer
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return publish(cache, kB) ? 1 : 0;
  });
  expect_equal("publish on a full disk fails, without an exception", full, 0);
  expect_note("find", cache.find(kB), {});
  expect("what was built is removed", !exists(cache.entry(kB) + ".new"));
  KernelCache none("");
  expect_note("a cache that is off", none.find(kA), {});
}

TEST_CASE("6.15 an entry that is open to others is not used") {
  const TemporaryFolder folder;
  KernelCache cache(folder.cache());
  expect("publish succeeds", publish(cache, kA));
  ::chmod(cache.entry(kA).c_str(), 0777);
  expect_note("an entry of mode 0777", cache.find(kA), {});
  expect("publish succeeds", publish(cache, kA));
  ::chmod(fs::path(cache.entry(kA)).parent_path().c_str(), 0770);
  expect_note("below a folder of mode 0770", cache.find(kA), {});
  ::chmod(fs::path(cache.entry(kA)).parent_path().c_str(), 0700);
  expect("publish succeeds", publish(cache, kB));
  fs::rename(cache.entry(kB), folder.path + "/elsewhere");
  fs::create_directory_symlink(folder.path + "/elsewhere", cache.entry(kB));
  expect_note("a link to an entry", cache.find(kB), {});
}

TEST_CASE("6.15 four processes build a kernel once") {
  const TemporaryFolder folder;
  pid_t children[4];
  for (pid_t& child : children) {
    child = ::fork();
    if (child != 0) continue;
    int status = 9;
    try {
      KernelCache cache(folder.cache());
      const auto lock = cache.lock(kA);
      if (!lock) ::_exit(3);
      if (cache.find(kA)) ::_exit(0);  // found
      const std::string built = cache.building(kA);
      write(built + "/source.cpp", "source");
      ::usleep(20'000);
      write(built + "/kernel.so", "code");
      status = cache.publish(kA, "usable") ? 1 : 2;
    } catch (...) {
    }
    ::_exit(status);
  }
  int counts[10] = {};
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    ++counts[WIFEXITED(status) && WEXITSTATUS(status) < 9 ? WEXITSTATUS(status) : 9];
  }
  expect_equal("processes that built it", counts[1], 1);
  expect_equal("processes that found it", counts[0], 3);
}

TEST_CASE("6.15 a reader sees a whole entry or none") {
  const TemporaryFolder folder;
  KernelCache cache(folder.cache());
  expect("publish succeeds", publish(cache, kA, std::string(3000, 'x')));
  const pid_t writer = ::fork();
  if (writer == 0) {
    try {
      KernelCache own(folder.cache());
      const auto lock = own.lock(kB);
      const std::string built = own.building(kB);
      for (int k = 0; k < 20; ++k) {  // what is built is no entry, whatever it contains
        for (const char* file : {"source.cpp", "kernel.so", "meta.json"})
          write(built + "/" + file, read(own.entry(kA) + "/" + file));
        ::usleep(1000);
      }
      ::_exit(own.publish(kB, "usable") ? 0 : 1);
    } catch (...) {
    }
    ::_exit(2);
  }
  int status = 0;
  while (::waitpid(writer, &status, WNOHANG) == 0) {
    KernelCache reader(folder.cache());
    const Note note = reader.find(kB);
    expect("a reader finds the published entry or none", !note || *note == "usable");
    expect_equal("damaged entries of a reader", reader.bad_entries(), 0);
  }
  expect("the writer has published", WIFEXITED(status) && WEXITSTATUS(status) == 0);
  expect_note("find", cache.find(kB), "usable");
}

TEST_CASE("6.15 what was not used for the longest time makes room") {
  const TemporaryFolder folder;
  KernelCache cache(folder.cache(), 10'000);
  const std::string large(4000, 'x');
  const auto age = [&](const std::string& key, int seconds) {
    fs::last_write_time(cache.entry(key) + "/meta.json",
                        fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  };
  expect("publish a and b, of 4000 bytes", publish(cache, kA, large) && publish(cache, kB, large));
  age(kA, 200), age(kB, 100);
  expect_note("a is used", cache.find(kA), "usable");  // now b is the oldest
  std::error_code error;
  fs::create_directory(cache.entry(kB) + ".new", error);  // another process builds
  write(cache.entry(kB) + ".new/kernel.so", std::string(50'000, 'x'));
  expect("publish c, of 4000 bytes", publish(cache, kC, large));
  expect("what another process builds stays", exists(cache.entry(kB) + ".new/kernel.so"));
  expect_note("a, which was used, stays", cache.find(kA), "usable");
  expect_note("b makes room", cache.find(kB), {});
  expect_equal("b is not damaged", cache.bad_entries(), 0);
  expect_note("c stays", cache.find(kC), "usable");
  age(kA, 100), age(kC, 200);
  expect("publish an entry that is larger than the limit", publish(cache, kB, std::string(20'000, 'x')));
  expect_note("its builder uses it, so it stays", cache.find(kB), "usable");
  expect_note("all others are removed: a", cache.find(kA), {});
  expect_note("and c", cache.find(kC), {});
  KernelCache wide(folder.path + "/wide", 100'000);
  expect("publish two", publish(wide, kA, large) && publish(wide, kB, large));
  expect_note("below the limit nothing is removed", wide.find(kA), "usable");
}
