#include <doctest/doctest.h>

#include <support/ladder_matrix.hpp>
#include <tinytorch/backend/cpu/ladder/five_loops.hpp>

using namespace test;
namespace cpu = tinytorch::backend::cpu;
namespace ladder = cpu::ladder;

TEST_CASE("threads have whole tiles, which differ by one at most, and cover the rows") {
  for (const int64_t M : {0, 1, 6, 7, 100, 1000}) {
    for (const int64_t threads : {1, 3, 64}) {
      int64_t next = 0;
      for (int64_t t = 0; t < threads; ++t) {
        const ladder::RowRange r = ladder::rows_of_thread(M, threads, t);
        CHECK(r.begin == next);
        CHECK((r.begin % cpu::kMR == 0 || r.begin == M));
        CHECK(r.end - r.begin <= (M / cpu::kMR / threads + 1) * cpu::kMR);
        next = r.end;
      }
      CHECK(next == M);
    }
  }
}

TEST_CASE_TEMPLATE("the product of matrices of any layout, with any number of threads", T, float, double) {
  struct Sizes {
    int64_t M, N, K;
  };
  for (const Sizes s : {Sizes{1, 1, 1},
                        {7, 17, 0},
                        {0, 3, 2},
                        {3, 0, 2},
                        {ladder::kRowsOfBlock + 1, 5, 3},
                        {5, ladder::kColsOfBlock + 1, 2},
                        {13, 9, 2 * ladder::kDepthOfBlock + 1}}) {
    for (const bool transposed : {false, true}) {
      LadderMatrix<T> a(s.M, s.K, 1, transposed), b(s.K, s.N, 2, !transposed), c(s.M, s.N, 3);
      for (const int64_t threads : {1, 2, 7}) {
        ladder::product<T>(c.numbers.data(), c.row, {a.numbers.data(), a.row, a.col},
                           {b.numbers.data(), b.row, b.col}, s.M, s.N, s.K, threads);
        bool same = true;
        for (int64_t i = 0; i < s.M; ++i)
          for (int64_t j = 0; j < s.N; ++j) same = same && c.at(i, j) == ladder_sum(a, b, i, j);
        CHECK(same);
      }
    }
  }
}
