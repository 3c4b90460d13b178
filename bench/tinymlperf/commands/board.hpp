// `tinymlperf verify --board`, `export` and `import`: checks a whole board, writes it to one file, reads such
// a file.
#pragma once

#include <tinymlperf/board/store/transfer.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinymlperf/commands/show.hpp>

namespace tinymlperf {

struct TransferOptions {
  std::filesystem::path board, file;
};

// Exit status: 0 if everything is as it was submitted and measured; then the recomputed ranks are printed. 1
// if not. `seal`: as it was printed earlier; empty: none is demanded.
inline int run_verify_board(const std::filesystem::path& path, std::FILE* out = stdout,
                            const std::string& seal = "") {
  return detail::guarded(out, [&] {
    detail::require_board(path);
    board::Store store(path);
    auto complaints = board::verify_board(store);
    if (!seal.empty())
      if (const std::string wrong = board::seal_complaint(store.database(), seal); !wrong.empty())
        complaints.push_back(wrong);
    for (const std::string& c : complaints) fmt::print(out, "{}\n", c);
    if (!complaints.empty()) return kFailed;
    board::Queries queries(store, {.has_file = true});
    for (const board::TableKey& key : queries.table_keys())
      fmt::print(out, "{}\n", detail::text_of(queries.table(key).value()));
    if (const int64_t older = store.database().integer("SELECT count(*) FROM older_runs").value_or(0))
      fmt::print(out, "{} runs are of an older judge, which kept no evidence of its audits\n", older);
    fmt::print(out,
               "{}: every bundle and run is as it came, every rank follows from the raw samples; seal {}\n",
               path.string(), board::seal_of_board(store.database()));
    return kPass;
  });
}

inline int run_export(const TransferOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    const std::string bytes = board::export_board(store);
    tinytorch::write_file(o.file.string(), std::string_view(bytes));
    fmt::print(out, "wrote {} ({})\n", o.file.string(), tinytorch::document::show_bytes(bytes.size()));
    return kPass;
  });
}

// Creates the board if there is none.
inline int run_import(const TransferOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    const std::string bytes = detail::read_limited(o.file, board::kBoardLimits.bytes);
    board::Store store(o.board);
    const board::Imported i = board::import_board(store, bytes);
    fmt::print(out, "{} bundles and {} runs are new, {} and {} were there already\n", i.bundles, i.runs,
               i.known_bundles, i.known_runs);
    return kPass;
  });
}

}  // namespace tinymlperf
