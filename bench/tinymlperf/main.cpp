// tinymlperf: trains the bundled models, plays matches between entries, and keeps a leaderboard of them.
#include <tinymlperf/commands/model_commands.hpp>
#include <tinymlperf/device/work.hpp>
#ifdef TINYMLPERF_WITH_BOARD
#include <tinymlperf/commands/board_commands.hpp>
#endif

namespace {

using namespace tinymlperf;

constexpr const char* kTitle = "TinyMLPerf: models raced against each other on one machine";

// All commands, in the order of the help.
constexpr Command kCommands[] = {
    {"race", "train the bundled models and score all entries", judging<race_command>},
    {"run", "a match between models, each in a sandboxed process", judging<run_command>},
    {"run-training", "a match between trainings: which reaches the target sooner",
     judging<run_training_command>},
    {"run-kernels", "a match between kernels, op by op", judging<run_kernels_command>},
    {"train", "train a benchmark's bundled models and write them as entries", train_command},
    {"quantize", "pack an entry's weights, as the closed division allows", quantize_command},
    {"profile", "where a model's time, work and memory go", profile_command},
    {"verify", "recompute results from their raw samples", verify_command},
    {"kernels", "the ops of the benchmark krn, and their shapes", kernels_command},
    {"worker", "answer for an entry, as `run` lets it", worker_command},
#ifdef TINYMLPERF_WITH_BOARD
    {"check", "check a bundle or folder as a board would", judging<check_command>},
    {"pack", "make a bundle (.tmlp) of an entry's folder", judging<pack_command>},
    {"diff", "the differences of two entries, as a unified diff", judging<diff_command>},
    {"user", "add and list the users who may submit", judging<user_command>},
    {"course", "a class: its roster, tokens and grades", judging<course_command>},
    {"submit", "submit a bundle to a board", judging<submit_command>},
    {"watch", "follow a submission's jobs until they have ended", judging<watch_command>},
    {"head-to-head", "ask for a match of two submissions", judging<head_to_head_command>},
    {"job", "cancel a job that waits, or let a failed one wait again", judging<job_command>},
    {"withdraw", "withdraw a submission: it is not shown any more", judging<withdraw_command>},
    {"restore", "show a withdrawn or hidden submission again", judging<restore_command>},
    {"work", "play the matches that a board waits for", judging<work_command>},
    {"appeal", "appeals against refused runs", judging<appeal_command>},
    {"review", "reviews of held results", judging<review_command>},
    {"show", "a board's tables and queue, or a submission", judging<show_command>},
    {"export", "all bundles and runs of a board as one file", judging<export_command>},
    {"import", "check and store what another board exported", judging<import_command>},
    {"serve", "a board as a web site on this machine", judging<serve_command>},
    {"site", "a board's pages as files", judging<site_command>},
#endif
};

#ifdef TINYMLPERF_WITH_BOARD
constexpr const char* kFooter = "";
#else
constexpr const char* kFooter =
    "Built without bundles and leaderboard, which need cpp-httplib, SQLite, libarchive and OpenSSL.";
#endif

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = device::maybe_work(argc, argv)) return *status;
  return run_program(kTitle, kFooter, kCommands, argc, argv);
}
