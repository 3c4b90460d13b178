// A command of the program: its name, one line of help, and the function that declares its options. The help
// and the dispatch both read the same table of commands, so that neither can name one that the other lacks.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <tinymlperf/commands/exit_status.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

// Runs a command whose options were parsed; returns the exit status.
using Action = std::function<int()>;

struct Command {
  const char* name;
  const char* summary;
  Action (*run)(CLI::App& command);  // declares the options; the action reads what was parsed
};

// Options that live as long as the action that reads them.
template <class Options>
Action action_on(std::shared_ptr<Options> options, int (*run)(const Options&)) {
  return [options = std::move(options), run] { return run(*options); };
}

// Declares all commands; the action runs the one that was called.
inline Action one_of(CLI::App& app, std::span<const Command> commands) {
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Action>> declared;
  for (const Command& c : commands) {
    CLI::App* const command = app.add_subcommand(c.name, c.summary);
    declared.emplace_back(command, c.run(*command));
  }
  return [declared = std::move(declared)] {
    for (const auto& [command, action] : declared)
      if (*command) return action();
    return kSetUpProblem;  // the parser has asked for one
  };
}

// The library's headers that a student's replace in this program, one a line; empty in a build on the
// library's own.
#ifdef TINYTORCH_STUDENT_HEADERS
inline constexpr std::string_view kStudentHeaders = TINYTORCH_STUDENT_HEADERS;
#else
inline constexpr std::string_view kStudentHeaders = "";
#endif

// A command that judges, which a build on a student's headers refuses.
template <Action (*declare)(CLI::App&)>
Action judging(CLI::App& command) {
  return [action = declare(command)] {
    if (kStudentHeaders.empty()) return action();
    return detail::complain(
        "this program is built on a student's headers, and so would its clock and its statistics be: it "
        "judges nobody. `modules/tt perf --student -- run A B` lets the library's judge ask it");
  };
}

// main() of a program of commands.
inline int run_program(const char* title, const char* footer, std::span<const Command> commands, int argc,
                       char** argv) {
  CLI::App app(title);
  const Action action = one_of(app, commands);
  app.footer(footer);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kPass : kSetUpProblem;
  }
  try {
    return action();
  } catch (const std::exception& e) {
    fmt::print(stderr, "tinymlperf: {}\n", e.what());
    return 3;
  }
}

}  // namespace tinymlperf
