// Sessions of the judge with plugins in the sandbox, over real pipes: honest plugins answer, and each hostile
// one ends its session before the deadline, with a reason of its own.
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <atomic>
#include <support/refusals.hpp>
#include <support/scene.hpp>
#include <tinymlperf/channel/session.hpp>
#include <tinymlperf/entries/plugin.hpp>
#include <tree/source_folder.hpp>

using namespace tinymlperf::channel;
using tinymlperf::Query;
using tinymlperf::sandbox::Ending;
using tinymlperf::sandbox::Outcome;
using Why = Broken::Why;
using test::holds;

namespace {

// Doubles its input; prepared for "stream", it sends one token per element. What it prints must not disturb
// the frames.
int doubler(const hostile::Arguments&) {
  std::string prepared;
  return tinymlperf::serve(
      [&](const Query& query) -> Tensors {
        std::vector<float> out;
        for (const float x : query.inputs.at(0).values<float>()) out.push_back(2 * x);
        printf("answering for %s\n", prepared.c_str());
        if (prepared == "stream")
          for (const float& y : out) query.token(make_tensor({}, std::span(&y, 1)));
        if (prepared == "throw") throw std::runtime_error("no idea");
        return {make_tensor(query.inputs[0].shape, out)};
      },
      [&](std::string_view text) { prepared = text; });
}

void put(const Bytes& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = write(1, bytes.data() + at, bytes.size() - at);
    if (sent <= 0) _exit(3);
    at += static_cast<size_t>(sent);
  }
}

void put_hello() {
  Bytes version;
  detail::append(version, kVersion);
  put(encode(Kind::hello, 0, version));
}

// Answers with the longest pause, in seconds, of its grandchild, which left its process group and session.
int restless(const hostile::Arguments&) {
  auto* const longest = static_cast<std::atomic<float>*>(
      mmap(nullptr, sizeof(float), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto work = [longest] {
    auto last = Clock::now();
    for (;;) {
      const auto now = Clock::now();
      *longest = std::max(longest->load(), std::chrono::duration<float>(now - last).count());
      last = now;
    }
  };
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    work();
  }
  return tinymlperf::serve([longest](const Query&) -> Tensors {
    const float value = longest->load();
    return {make_tensor({1}, std::span(&value, 1))};
  });
}

// Sends hello and ready without parsing frames, then makes the mistake that its argument names.
int bad_plugin(const hostile::Arguments& args) {
  const std::string& what = args.at(0);
  if (what == "prints") return put(bytes_of("loading my model\n")), 0;
  if (what == "silent") return hostile::sleep_long(args);
  put_hello();
  if (what == "says hello twice") put_hello();
  char byte;
  if (read(0, &byte, 1) != 1) return 1;  // wait until the judge sends prepare
  put(encode(Kind::ready, 0, {}));
  if (what == "never reads") return hostile::sleep_long(args);
  // Read the rest of prepare, then the query.
  for (size_t i = 0; i < 2 * kHeaderBytes + 4; ++i)
    if (read(0, &byte, 1) != 1) return 1;
  Bytes frame = encode(Kind::answer, 1, encode(Tensors{}));
  if (what == "answers another query") frame = encode(Kind::answer, 2, encode(Tensors{}));
  if (what == "huge length") memset(frame.data() + 20, 0xff, 8);
  if (what == "truncated") frame.resize(frame.size() - 1);
  if (what == "closes its output") return close(1), hostile::sleep_long(args);
  if (what == "slow bytes") {
    for (const std::byte one : frame) put({one}), usleep(100000);
  }
  if (what == "floods") {
    for (;;) put(encode(Kind::token, 1, encode(Tensors{})));
  }
  if (what == "floods errors") {
    const std::string line(4096, 'e');
    while (write(2, line.data(), line.size()) > 0) {
    }
  }
  if (what == "exits") return 5;
  if (what == "crashes") return hostile::crash();
  if (what == "answers twice") put(frame);
  put(frame);
  if (what == "does not end") return hostile::sleep_long(args);
  return 0;
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv,
                         {{"doubler", doubler}, {"restless", restless}, {"bad_plugin", bad_plugin}});
}

Tensor numbers(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000);
  return make_tensor({static_cast<int64_t>(count)}, values);
}

const auto& machine() { return test::machines()[0].offers; }

// A program is held by a freezer or by signals, to all processes of a namespace or to a process group.
std::vector<test::Machine> held_in_other_ways() {
  std::vector<test::Machine> out = test::machines();
  out.push_back({"without cgroups", machine()});
  out.back().offers.cgroup.clear(), out.back().offers.freezer.clear();
  return out;
}

struct Verdict {
  std::optional<Why> why;
  std::string text;
  Outcome outcome;
};

// Sends one query to the plugin `name`, with a timeout of one second for each wait.
Verdict try_one(const std::string& name, size_t elements = 1) {
  const test::Scene scene;
  Session session(scene.child({"bad_plugin", name}), scene.policy, machine());
  Verdict out;
  const Tensor input = numbers(elements);
  try {
    session.prepare("", 1);
    session.ask(1, std::span(&input, 1));
    while (session.next(1).frame.kind == Kind::token) continue;
    if (name == "answers twice") session.next(1);
  } catch (const Broken& broken) {
    out.why = broken.why;
    out.text = broken.what();
  }
  out.outcome = session.finish(0.3);
  MESSAGE(name << ": " << (out.text.empty() ? "answered" : out.text) << "; " << out.outcome.reason);
  CHECK(out.outcome.wall_seconds < 10);
  return out;
}

}  // namespace

TEST_CASE("an honest plugin answers queries of all sizes, with several open at a time") {
  const test::Scene scene;
  Session session(scene.child({"doubler"}), scene.policy, machine());
  session.prepare("plain", 5);
  uint64_t id = 0;
  for (const size_t elements : {size_t{1}, size_t{1000}, size_t{2000000}}) {
    const Tensor input = numbers(elements);
    const auto asked = session.ask(++id, std::span(&input, 1));
    session.ask(++id, std::span(&input, 1));
    for (const uint64_t expected : {id - 1, id}) {
      const Event event = session.next(10);
      CHECK(event.at > asked);
      CHECK(event.frame.id == expected);
      const Tensors answer = parse_tensors(event.frame.payload);
      REQUIRE(answer.size() == 1);
      REQUIRE(answer[0].shape == input.shape);
      const auto x = input.values<float>(), y = answer[0].values<float>();
      CHECK(std::equal(x.begin(), x.end(), y.begin(), [](float a, float b) { return b == 2 * a; }));
    }
  }
  const Outcome& outcome = session.finish(5);
  CHECK(outcome.good());
  CHECK(holds(outcome.err, "answering for plain\n"));
}

TEST_CASE("tokens arrive one by one before the answer") {
  const test::Scene scene;
  Session session(scene.child({"doubler"}), scene.policy, machine());
  session.prepare("stream", 5);
  const Tensor input = numbers(3);
  session.ask(1, std::span(&input, 1));
  for (int i = 0; i < 3; ++i) {
    const Event event = session.next(5);
    CHECK(event.frame.kind == Kind::token);
    CHECK(parse_tensors(event.frame.payload).at(0).values<float>()[0] == static_cast<float>(2 * i));
  }
  CHECK(session.next(5).frame.kind == Kind::answer);
  CHECK_FALSE(session.poll_next(0.05));
  CHECK(session.finish(5).good());
}

TEST_CASE("the text of a plugin's exception is reported to the judge") {
  const test::Scene scene;
  Session session(scene.child({"doubler"}), scene.policy, machine());
  session.prepare("throw", 5);
  const Tensor input = numbers(3);
  session.ask(1, std::span(&input, 1));
  CHECK_THROWS_WITH_AS(session.next(5), "the plugin reported an error: no idea", Broken);
  CHECK(session.finish(5).exit_code == 1);
}

TEST_CASE("frames that are wrong or out of order end the session") {
  for (const auto& [name, words] : std::vector<std::pair<const char*, const char*>>{
           {"prints", "standard output"},
           {"says hello twice", "found hello"},
           {"answers another query", "answer of query 2"},
           {"huge length", "found a length of 18446744073709551615"},
           {"answers twice", "found answer of query 1"}}) {
    const Verdict v = try_one(name);
    CHECK(v.why == Why::malformed);
    CHECK(holds(v.text, words));
  }
}

TEST_CASE("a plugin that is held does not run, and neither does a process that it started") {
  for (const test::Machine& one : held_in_other_ways()) {
    CAPTURE(one.name);
    const test::Scene scene;
    Session session(scene.child({"restless"}), scene.policy, one.offers);
    session.prepare("", 5);
    uint64_t id = 0;
    const auto longest_pause = [&] {
      const Tensor input = numbers(1);
      session.ask(++id, std::span(&input, 1));
      const Event event = session.next(5);
      return parse_tensors(event.frame.payload).at(0).values<float>()[0];
    };
    while (longest_pause() == 0) usleep(1000);  // the grandchild runs
    session.hold();
    const Tensor input = numbers(1);
    session.ask(++id, std::span(&input, 1));
    CHECK_FALSE(session.poll_next(0.4));
    session.resume();
    session.next(5);
    float longest = 0;
    for (int i = 0; i < 500 && longest < 0.35f; ++i) longest = longest_pause(), usleep(10000);
    CHECK(longest >= 0.35f);
    session.hold();
    CHECK(session.finish(5).ending == Ending::exited);  // finish() continues it first
  }
}

// Somebody else sends the signal here, since the filter keeps the plugin from it. With a freezer, no signal
// wakes it.
TEST_CASE("a plugin that ran while it was held is found by its processor time, whoever woke it") {
  for (const test::Machine& one : held_in_other_ways()) {
    CAPTURE(one.name);
    const test::Scene scene;
    Session session(scene.child({"restless"}), scene.policy, one.offers);
    session.prepare("", 5);
    session.hold();
    usleep(20000);
    session.resume();  // an honest one
    session.hold();
    for (const tinymlperf::sandbox::Member& m : session.members()) kill(m.pid, SIGCONT);
    usleep(500000);
    if (one.offers.freezer.empty()) {
      CHECK_THROWS_WITH_AS(session.resume(), doctest::Contains("while the judge held them"), Broken);
      CHECK(session.finish(1).ending == Ending::stopped);
    } else {
      CHECK_NOTHROW(session.resume());
    }
  }
}

TEST_CASE("waiting has a deadline on both pipes") {
  Verdict v = try_one("silent");
  CHECK(v.why == Why::silent);
  CHECK(v.outcome.ending == Ending::stopped);
  v = try_one("slow bytes");  // each byte comes within the timeout, the whole frame does not
  CHECK(v.why == Why::silent);
  v = try_one("never reads", 4000000);
  CHECK(v.why == Why::silent);
  CHECK(holds(v.text, "did not read"));
}

TEST_CASE("ends before the answer are distinguished: output closed, truncated frame, exit, crash") {
  Verdict v = try_one("closes its output");
  CHECK(v.why == Why::ended);
  CHECK(v.outcome.ending == Ending::stopped);
  CHECK(holds(try_one("truncated").text, "within a frame"));
  CHECK(try_one("exits").outcome.exit_code == 5);
  v = try_one("crashes");
  CHECK(v.why == Why::ended);
  CHECK(v.outcome.signal == SIGSEGV);
}

TEST_CASE("endless tokens and endless error output are stopped at their limits") {
  CHECK(try_one("floods").why == Why::malformed);
  const Verdict v = try_one("floods errors");
  CHECK(v.why == Why::output);
  CHECK(v.outcome.ending == Ending::output);
}

TEST_CASE("a plugin that answers but does not exit is stopped") {
  const Verdict v = try_one("does not end");
  CHECK_FALSE(v.why);
  CHECK(v.outcome.ending == Ending::stopped);
}

TEST_CASE("the policy's limit on wall-clock time ends a session, too") {
  test::Scene scene;
  scene.policy.wall_seconds = 0.5;
  Session session(scene.child({"bad_plugin", "silent"}), scene.policy, machine());
  CHECK_THROWS_AS(session.prepare("", 60), Broken);
  CHECK(session.finish(5).ending == Ending::time);
}

TEST_CASE("a plugin of one header and one function is compiled and run in the sandbox") {
  const std::string compiler = "/usr/bin/c++";
  REQUIRE_MESSAGE(std::filesystem::exists(compiler), "this test compiles a plugin with " << compiler);
  test::Scene scene;
  std::ofstream(scene.work / "plugin.cpp") << R"(
#include <tinymlperf/entries/plugin.hpp>
int main() {
  return tinymlperf::serve([](const tinymlperf::Query& query) { return query.inputs; });
})";
  const std::filesystem::path headers = std::filesystem::path(tinytorch_tree::kSourceFolder) / "bench";
  std::filesystem::create_directories(scene.base / "include/tinymlperf/entries");
  // Other users may not be able to enter the folders above the project, so the sandbox gets a copy.
  std::filesystem::copy(headers / "tinymlperf" / "channel", scene.base / "include" / "tinymlperf" / "channel",
                        std::filesystem::copy_options::recursive);
  std::filesystem::copy(headers / "tinymlperf/entries/plugin.hpp", scene.base / "include/tinymlperf/entries");
  scene.policy.read_only.push_back(scene.base / "include");
  const Outcome made = tinymlperf::sandbox::run(
      {compiler, "-std=c++20", "-I", (scene.base / "include").string(), "plugin.cpp", "-o", "plugin"},
      scene.policy, machine());
  REQUIRE_MESSAGE(made.good(), made.reason << "\n" << made.err);
  std::filesystem::permissions(scene.work / "plugin", std::filesystem::perms(0755));
  Session session({(scene.work / "plugin").string()}, scene.policy, machine());
  session.prepare("", 5);
  const Tensor input = numbers(5);
  session.ask(1, std::span(&input, 1));
  CHECK(parse_tensors(session.next(5).frame.payload).at(0).bytes == input.bytes);
  CHECK(session.finish(5).good());
}
