// `tinymlperf serve`: a board as a web site on this machine. `tinymlperf work` plays its matches in another
// process.
#pragma once

#include <tinymlperf/board/pages/export.hpp>
#include <tinymlperf/board/store/queries.hpp>
#include <tinymlperf/board/store/store.hpp>
#include <tinymlperf/board/web/serve.hpp>
#include <tinymlperf/commands/common.hpp>

namespace tinymlperf {

struct ServeCommandOptions {
  std::filesystem::path board;
  board::ServerOptions server;
};

inline int run_serve(const ServeCommandOptions& o) {
  return detail::guarded(stdout, [&] {
    detail::require_board(o.board);
    board::Store store(o.board), reading(o.board);  // a reader does not wait for a writer
    board::Queries queries(reading);
    board::WorkDesk desk(store);
    return board::serve(queries, store, {.database = o.board, .server = o.server}, &desk);
  });
}

struct SiteOptions {
  std::filesystem::path board, folder;
};

// `tinymlperf site` writes the same pages as files, for any web server.
inline int run_site(const SiteOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    board::Queries queries(store);
    fmt::print(out, "{} pages in {}\n", board::export_site(queries, o.folder), o.folder.string());
    return kPass;
  });
}

}  // namespace tinymlperf
