// A running untrusted program: the constructor starts it, the destructor ends it.
//
// The object owns the keeper, the control pipe and the cgroup. No process of the run outlives it: its
// destructor ends the keeper, and the end of the keeper ends all processes of the run.
#pragma once

#include <pthread.h>

#include <chrono>
#include <map>
#include <string>
#include <tinymlperf/sandbox/keeper.hpp>
#include <tinymlperf/sandbox/process_tree.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::sandbox {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Owns a file descriptor and closes it.
class File {
 public:
  File() = default;
  explicit File(int number) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~File() { reset(); }
  void reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }
  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

struct Pipe {
  File read, write;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw Unavailable(std::string("cannot create a pipe: ") + strerror(errno));
    read = File(ends[0]);
    write = File(ends[1]);
  }
};

// Calls write(); on a closed pipe it returns the error EPIPE and never raises SIGPIPE, which would end the
// judge.
inline ssize_t write_without_signal(int file, const void* bytes, size_t count) {
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t sent = write(file, bytes, count);
  const int error = errno;
  if (sent < 0 && error == EPIPE) {  // remove the pending signal before it can be delivered
    constexpr timespec kNow{0, 0};
    sigtimedwait(&pipe_signal, nullptr, &kNow);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return sent;
}

class Process {
 public:
  // Starts the program with the given standard input, output and error. Throws Unavailable if the machine's
  // level is too low or a path is missing. If the program itself cannot be started, wait() reports it.
  Process(const std::vector<std::string>& command, const Policy& policy, const Offers& offers, int in,
          int out, int err)
      : plan_(checked(command, policy, offers)), priority_(plan_.real_time), start_(Clock::now()) {
    const fs::path& home = offers.cgroup.empty() ? offers.freezer : offers.cgroup;
    if (!home.empty()) cgroup_ = Cgroup(home, policy);
    const File entry(cgroup_.open_entry());
    File rules;
    if (offers.landlock > 0) {
      rules = File(landlock::create(offers.landlock));
      if (!rules) throw Unavailable(std::string("cannot create the Landlock rules: ") + strerror(errno));
    }
    Pipe report, control, done;
    KeeperFiles files{{in, out, err, report.write.number(), control.read.number(), entry.number(),
                       rules.number(), done.write.number()}};
    keeper_ = steps::fork_into(offers.namespaces);
    if (keeper_ == 0) keep(plan_, files);
    if (keeper_ < 0) throw Unavailable(std::string("cannot start a process: ") + strerror(errno));
    report_ = std::move(report.read);
    control_ = std::move(control.write);
    done_ = std::move(done.read);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    stop();
    wait();
  }

  // Asks the keeper to end all processes; wait() then returns soon.
  void stop() { control_.reset(); }
  // Stops all processes of the run, so that it does not work during another contender's turn. Returns "" as
  // soon as the kernel shows that none of them runs any more, else the reason.
  std::string hold() {
    constexpr double kLongest = 10;  // on a loaded machine a thread has to get a processor before it stops
    if (held_ || keeper_ <= 0) return "";
    held_ = true;
    const Clock::time_point start = Clock::now();
    do {
      cgroup_.can_freeze() ? cgroup_.freeze(true) : command(kHold);
      if (stands_still(seconds_since(start))) {
        clocks_ = settled_clocks();
        held_at_ = Clock::now();
        return "";
      }
      usleep(1000);
    } while (seconds_since(start) < kLongest);
    return "its processes did not stop within 10 s when the judge held them";
  }
  // Continues all processes. Returns "" if none of them has run since hold(), else what the clocks of the
  // processes show.
  std::string resume() {
    if (!held_) return "";
    held_ = false;
    // A thread that waited in the kernel may finish its system call, and each tick of an interval timer costs
    // a frozen process some microseconds.
    const double tolerated = 0.005 + 0.01 * seconds_since(held_at_);
    double ran = 0;
    for (const auto& [pid, now] : clocks_now()) {
      const auto before = clocks_.find(pid);
      ran += static_cast<double>(now - (before == clocks_.end() ? 0 : before->second)) * 1e-9;
    }
    cgroup_.can_freeze() ? cgroup_.freeze(false) : command(kResume);
    if (ran <= tolerated) return "";
    char text[96];
    snprintf(text, sizeof text, "its processes ran for %.3g s while the judge held them", ran);
    return text;
  }
  // The processes of the run; none after its end.
  std::vector<Member> members() const { return keeper_ > 0 ? members_of(keeper_) : std::vector<Member>(); }
  pid_t keeper() const { return keeper_; }
  // A file for poll(): it is readable as soon as the program has ended or could not be started.
  int report_file() const { return report_.number(); }
  // Waits until all processes have ended. A keeper that was asked to stop has ten seconds; then it is killed,
  // and in a PID namespace all other processes with it.
  const Report& wait() {
    if (keeper_ <= 0) return report_value_;
    pollfd event{report_.number(), POLLIN, 0};
    int ready = 0;
    do {
      ready = poll(&event, 1, control_ ? -1 : 10000);
    } while (ready < 0 && errno == EINTR);
    Report got;
    if (ready <= 0 || read(report_.number(), &got, sizeof got) != sizeof got) {
      got = Report{};
      got.failure = {Step::fork, ECHILD};  // the keeper ended without a report
    }
    report_value_ = got;
    stop();
    cgroup_.kill();
    // After a failure the keeper has reported or never will, so it can be killed.
    if (got.failure) ::kill(keeper_, SIGKILL);
    while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
    }
    keeper_ = -1;
    return report_value_;
  }

  Clock::time_point start() const { return start_; }
  const Cgroup& cgroup() const { return cgroup_; }
  // The reason why the program could not be started, for a person.
  std::string explain(const Failure& failure) const {
    if (failure.step == Step::fork && failure.error == ECHILD)
      return "the keeper, the program's parent process, was killed";
    std::string text = std::string("cannot ") + to_text(failure.step);
    if (failure.step == Step::grant) text += " " + plan_.grants.at(static_cast<size_t>(failure.detail)).path;
    if (failure.step == Step::exec) text += " " + plan_.command[0];
    text += std::string(": ") + strerror(failure.error);
    if (failure.step == Step::priority) text += "; --no-real-time runs the match without it";
    if (failure.step == Step::exec && failure.error == EACCES)
      text +=
          "; it must lie below the work folder or a readable path, be executable, and be in folders that all "
          "users "
          "may enter";
    return text;
  }

 private:
  // True if no process of the run can run until it is continued. One that waits in the kernel stops before it
  // leaves it: a parent waits there for a child by vfork(), which is itself held.
  bool stands_still(double waited) const {
    if (cgroup_.can_freeze()) return cgroup_.is_frozen();
    if (access(detail::proc(keeper_).c_str(), F_OK) != 0 && ::kill(keeper_, 0) == 0)
      throw Unavailable("/proc hides the processes of a run from the judge: mount it without hidepid");
    // The first walk may have missed a process that was started meanwhile.
    for (int walk = 0; walk < 2; ++walk)
      for (const Member& m : members_of(keeper_))
        if (!m.stopped && !(m.waiting && waited > 0.2)) return false;
    return true;
  }
  std::map<pid_t, int64_t> clocks_now() const {
    std::map<pid_t, int64_t> out;
    for (const Member& m : members()) out[m.pid] = m.own_nanoseconds;
    return out;
  }
  // The last steps of a thread that is shown as stopped, and of a processor that its host takes away
  // meanwhile, are counted a moment later.
  std::map<pid_t, int64_t> settled_clocks() const {
    std::map<pid_t, int64_t> last = clocks_now();
    for (int i = 0; i < 20; ++i) {
      usleep(200);
      std::map<pid_t, int64_t> now = clocks_now();
      if (now == last) break;
      last = std::move(now);
    }
    return last;
  }
  // Sends a command and waits until the keeper has executed it. Does nothing if the keeper has ended.
  void command(char word) {
    if (!control_ || write_without_signal(control_.number(), &word, 1) != 1) return;
    pollfd events[2] = {{done_.number(), POLLIN, 0}, {report_.number(), POLLIN, 0}};
    while (poll(events, 2, 10000) < 0 && errno == EINTR) continue;
    if (events[0].revents && read(done_.number(), &word, 1) != 1) done_.reset();
  }
  static Plan checked(const std::vector<std::string>& command, const Policy& policy, const Offers& offers) {
    require(offers, policy.least);
    return Plan(command, policy, offers);
  }

  Plan plan_;
  RaisedPriority priority_;
  Clock::time_point start_;
  Cgroup cgroup_;
  File report_, control_, done_;
  pid_t keeper_ = -1;
  Report report_value_;
  bool held_ = false;
  Clock::time_point held_at_;
  std::map<pid_t, int64_t> clocks_;  // processor time of each process when it was held
};

}  // namespace tinymlperf::sandbox
