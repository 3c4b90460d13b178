// The judge's side of a plugin: a sandboxed process whose standard input and output carry frames.
//
// The judge never waits without a deadline, neither for a plugin that sends nothing nor for one that does not
// read. The judge measures all times itself: a query's time begins when it is sent, and ends when the last
// byte of the answer has arrived. A mistake of the plugin ends the session with the exception Broken, which
// names it. finish() returns how the process ended.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <limits>
#include <tinymlperf/channel/conversation.hpp>
#include <tinymlperf/channel/tensor.hpp>
#include <tinymlperf/sandbox/sandbox.hpp>

namespace tinymlperf::channel {

using sandbox::Clock;

struct Broken : std::runtime_error {
  enum class Why { malformed, gave_up, silent, ended, output, awake, limit };
  Broken(Why reason, const std::string& text) : std::runtime_error(text), why(reason) {}
  Why why;
};

struct Event {
  Frame frame;
  Clock::time_point at;  // when its last byte had arrived
};

class Session {
 public:
  Session(const std::vector<std::string>& command, const sandbox::Policy& policy,
          const sandbox::Offers& offers, Limits limits = {})
      : policy_(policy),
        usage_(policy),
        limits_(limits),
        reader_(limits),
        room_(policy.output_bytes),
        process_(command, policy, offers, to_plugin_.read.number(), from_plugin_.write.number(),
                 err_.target()) {
    to_plugin_.read.reset();
    from_plugin_.write.reset();
    err_.started();
    for (const int file : {to_plugin_.write.number(), from_plugin_.read.number()}) {
      fcntl(file, F_SETFL, O_NONBLOCK);
      fcntl(file, F_SETPIPE_SZ, 1 << 20);  // optional: fewer context switches for large tensors
    }
  }

  // Sets limits, for a judge that knows the sizes of its questions and of their answers. They hold from the
  // next frame on.
  void set_limits(Limits limits) {
    limits_ = limits;
    reader_.set_limits(limits);
  }

  // Waits for hello, sends prepare and waits for ready. Throws Broken if this takes more than `seconds`.
  void prepare(std::string_view text, double seconds) {
    const double until = now() + seconds;
    while (!talk_.greeted()) expect(until);
    send(Kind::prepare, 0, bytes_of(text));
    while (!talk_.ready()) expect(until);
  }

  // The plugin's processes may run for so many seconds from now on, without the time in which they are held.
  // Then waiting for it throws Broken.
  void allow(double seconds) { ran_ = 0, since_ = Clock::now(), allowed_ = seconds; }
  double running_seconds() const { return ran_ + (held_ ? 0 : sandbox::seconds_since(since_)); }

  // Sends a query; bytes that the pipe does not take at once are sent while next() waits. Returns the time at
  // which the query was asked.
  Clock::time_point ask(uint64_t id, std::span<const Tensor> inputs) {
    const Bytes payload = encode(inputs);
    if (payload.size() > limits_.tensors)
      throw std::logic_error("the query has " + std::to_string(payload.size()) +
                             " bytes, more than the session's limit of " + std::to_string(limits_.tensors));
    require_within_limits();
    const Clock::time_point asked = Clock::now();
    send(Kind::query, id, payload);
    flush();
    return asked;
  }

  // Waits for the next token or answer. Throws Broken if none arrives within `seconds`.
  Event next(double seconds) { return expect(now() + seconds); }

  // Waits like next(), but returns nullopt if no event arrives within `seconds`; scenarios that ask by a
  // schedule use it.
  std::optional<Event> poll_next(double seconds) { return receive(now() + seconds); }

  // Stop and continue all processes of the plugin. Between its turns a plugin is stopped, so that it can
  // neither work ahead nor slow down the contender whose turn it is. Both throw Broken: hold() if a process
  // does not stop, resume() if one has run meanwhile.
  void hold() {
    if (!held_) ran_ = running_seconds();
    held_ = true;
    require_held(process_.hold());
  }
  void resume() {
    if (held_) since_ = Clock::now();
    held_ = false;
    require_held(process_.resume());
  }
  std::vector<sandbox::Member> members() const { return process_.members(); }

  // Sends done, gives the plugin `seconds` to exit, and ends it. May be called after Broken, too.
  const sandbox::Outcome& finish(double seconds) {
    if (finished_) return outcome_;
    finished_ = true;
    (void)process_.resume();
    usage_.note_peak(process_.members());
    sandbox::Ending stopped = sandbox::Ending::stopped;
    try {
      if (!broken_ && talk_.ready() && talk_.open_queries() == 0) {
        send(Kind::done, 0, {});
        const double until = now() + seconds;
        receive(until);  // sends the rest of the queue; any frame that arrives now is out of order
      }
    } catch (const Broken& end) {
      broken_why_ = end.why;
    }
    const bool by_itself = broken_why_ == Broken::Why::ended || broken_why_ == Broken::Why::gave_up;
    if (by_itself) stopped = sandbox::Ending::exited;
    if (broken_why_ == Broken::Why::output) stopped = sandbox::Ending::output;
    if (exceeded_ != sandbox::Ending::exited) stopped = exceeded_;
    if (broken_why_ == Broken::Why::silent && now() >= policy_.wall_seconds) stopped = sandbox::Ending::time;
    // A closed pipe is not yet the end of the process, which has the same seconds to exit.
    if (stopped == sandbox::Ending::exited && !ends_within(seconds)) stopped = sandbox::Ending::stopped;
    err_.take(room_);
    outcome_.err = std::move(err_.text);
    sandbox::conclude(outcome_, process_, stopped, policy_, usage_.peak_bytes());
    return outcome_;
  }

 private:
  double now() const { return sandbox::seconds_since(process_.start()); }

  [[noreturn]] void broken(Broken::Why why, const std::string& text) {
    broken_ = true;
    broken_why_ = why;
    throw Broken(why, text);
  }

  // Ends the plugin if its time is used up, or if all its processes together exceed a limit.
  void require_within_limits() {
    if (running_seconds() >= allowed_)
      broken(Broken::Why::limit, fmt::format("its budget of {:.3g} s of running time is used up", allowed_));
    exceeded_ = usage_.look(process_);
    if (exceeded_ != sandbox::Ending::exited) broken(Broken::Why::limit, "the judge ended it");
  }
  void require_held(const std::string& complaint) {
    if (!complaint.empty()) broken(Broken::Why::awake, complaint);
  }

  void send(Kind kind, uint64_t id, std::span<const std::byte> payload) {
    talk_.sends(kind, id);
    outgoing_.push_back(encode(kind, id, payload));
  }

  // Writes as much as the pipe takes. A plugin that closed its input is detected by its missing answer.
  void flush() {
    while (!outgoing_.empty() && to_plugin_.write) {
      const Bytes& front = outgoing_.front();
      const ssize_t sent = sandbox::write_without_signal(to_plugin_.write.number(), front.data() + sent_,
                                                         front.size() - sent_);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EPIPE) to_plugin_.write.reset();
      if (sent < 0) break;
      sent_ += static_cast<size_t>(sent);
      if (sent_ < front.size()) continue;
      outgoing_.pop_front();
      sent_ = 0;
    }
  }

  Event expect(double until) {
    if (std::optional<Event> event = receive(until)) return *std::move(event);
    broken(Broken::Why::silent, outgoing_.empty() ? "the plugin sent nothing before its deadline"
                                                  : "the plugin did not read its query before its deadline");
  }

  // Reads and writes until a whole frame has arrived. Returns nothing at the deadline `until`.
  std::optional<Event> receive(double until) {
    until = std::min(until, policy_.wall_seconds);
    for (;;) {
      if (std::optional<Event> event = whole_frame()) return event;
      if (!from_plugin_.read)
        broken(Broken::Why::ended,
               reader_.between_frames()
                   ? "the plugin ended or closed its output before it had answered everything"
                   : "the plugin's output ended within a frame");
      flush();
      const double left = std::min(until - now(), std::max(0.0, allowed_ - running_seconds()));
      if (until <= now()) return std::nullopt;
      pollfd events[3] = {{from_plugin_.read.number(), POLLIN, 0},
                          {outgoing_.empty() ? -1 : to_plugin_.write.number(), POLLOUT, 0},
                          {err_.file(), POLLIN, 0}};
      constexpr double kLook = 0.1;
      if (poll(events, 3, static_cast<int>(std::min(left, kLook) * 1000) + 1) == 0) require_within_limits();
      if (!err_.take(room_))
        broken(Broken::Why::output, "the plugin wrote more to its error output than the limit allows");
      if (events[0].revents) read_some();
    }
  }

  void read_some() {
    arrived_.resize(1 << 18);
    const ssize_t got = read(from_plugin_.read.number(), arrived_.data(), arrived_.size());
    last_byte_ = Clock::now();
    if (got > 0) reader_.feed(std::span(arrived_).first(static_cast<size_t>(got)));
    if (got == 0) from_plugin_.read.reset();
  }

  std::optional<Event> whole_frame() {
    try {
      std::optional<Frame> frame = reader_.next();
      if (!frame) return std::nullopt;
      talk_.receives(*frame);
      if (frame->kind == Kind::error)
        broken(Broken::Why::gave_up, "the plugin reported an error: " + text_of(frame->payload));
      return Event{std::move(*frame), last_byte_};
    } catch (const ProtocolError& error) {
      broken(Broken::Why::malformed, error.what());
    }
  }

  bool ends_within(double seconds) {
    pollfd event{process_.report_file(), POLLIN, 0};
    return poll(&event, 1, static_cast<int>(seconds * 1000)) > 0;
  }

  sandbox::Policy policy_;
  sandbox::UsageWatch usage_;
  Limits limits_;
  FrameReader reader_;
  Conversation talk_;
  int64_t room_;
  sandbox::Pipe to_plugin_, from_plugin_;
  sandbox::Capture err_;
  sandbox::Process process_;  // declared after the pipes, so that it is destroyed before them
  std::deque<Bytes> outgoing_;
  size_t sent_ = 0;  // bytes of outgoing_.front() that were written
  Bytes arrived_;
  Clock::time_point last_byte_;
  bool broken_ = false, finished_ = false;
  std::optional<Broken::Why> broken_why_;
  sandbox::Ending exceeded_ = sandbox::Ending::exited;
  bool held_ = false;
  Clock::time_point since_ = Clock::now();
  double ran_ = 0, allowed_ = std::numeric_limits<double>::infinity();
  sandbox::Outcome outcome_;
};

}  // namespace tinymlperf::channel
