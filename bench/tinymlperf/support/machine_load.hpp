// Measures how much of the machine other programs use meanwhile: the processors' busy time as the system
// counts it, without the time of this process and of the children that it waited for.
//
//   const LoadMeter meter;
//   ...                                  // a match
//   note_other_load(run.machine, meter.others());
//
// A match beside other load keeps its result, since contenders take turns and share the load; but its numbers
// are those of a busy machine, and it says so.
#pragma once

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <tinymlperf/support/json_fields.hpp>

namespace tinymlperf {

// Seconds since some moment.
struct LoadReading {
  double time = 0;  // elapsed
  double busy = 0;  // of all processors together, also time that other guests of the host took
  double own = 0;   // of this process and its ended children
};

// `stat`: the first line of /proc/stat, in units of which a second has `ticks`. 0: it cannot be read.
inline double busy_seconds(const std::string& stat, double ticks) {
  std::istringstream words(stat);
  std::string name;
  words >> name;
  // user nice system idle iowait irq softirq steal; times of guests are in user and nice already
  double sum = 0, value = 0;
  for (int i = 0; i < 8 && words >> value; ++i)
    if (i != 3 && i != 4) sum += value;
  return name == "cpu" ? sum / ticks : 0;
}

inline LoadReading read_load() {
  const auto seconds = [](int who) {
    rusage used{};
    getrusage(who, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  };
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
          busy_seconds(line, static_cast<double>(sysconf(_SC_CLK_TCK))),
          seconds(RUSAGE_SELF) + seconds(RUSAGE_CHILDREN)};
}

// The number of processors that others used on average between two readings. The system counts busy time in
// ticks of 10 ms, which say nothing about less than half a second.
inline double others_between(const LoadReading& before, const LoadReading& after) {
  const double time = after.time - before.time;
  if (time < 0.5 || after.busy <= 0) return 0;
  return std::max(0.0, ((after.busy - before.busy) - (after.own - before.own)) / time);
}

class LoadMeter {
 public:
  double others() const { return others_between(before_, read_load()); }

 private:
  LoadReading before_ = read_load();
};

constexpr const char* kOtherLoad = "other_load";
// Below this many processors it is the usual work of a system.
constexpr double kNotedLoad = 0.1;

inline void note_other_load(Json& machine, double processors) {
  if (processors >= kNotedLoad) machine[kOtherLoad] = std::round(100 * processors) / 100;
}
// The note for readers of the result; empty if there was no other load.
inline std::string other_load_text(const Json& machine) {
  const auto found = machine.is_object() ? machine.find(kOtherLoad) : machine.end();
  if (!machine.is_object() || found == machine.end() || !found->is_number()) return "";
  return fmt::format("played beside other load: other programs used {:.2f} processors meanwhile",
                     found->get<double>());
}

}  // namespace tinymlperf
