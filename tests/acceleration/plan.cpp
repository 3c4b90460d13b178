// Memory plans of random blocks, and the checker against wrong plans.
#include <doctest/doctest.h>

#include <support/random_function.hpp>
#include <tinytorch/acceleration/plan.hpp>

namespace {
namespace tt = tinytorch;
using Blocks = std::vector<tt::LiveBlock>;

Blocks random_blocks(tt::Generator& random, int count, int steps) {
  Blocks blocks;
  for (int k = 0; k < count; ++k) {
    const int first = static_cast<int>(random.below(static_cast<uint64_t>(steps)));
    const int length = static_cast<int>(random.below(static_cast<uint64_t>(steps - first)));
    const auto bytes = static_cast<int64_t>(random.below(4) == 0 ? random.below(3) : random.below(5000));
    blocks.push_back({bytes, first, first + length});
  }
  return blocks;
}
// Returns true if a plan is valid, by checking every pair of blocks.
bool is_right(const Blocks& blocks, const tt::Placement& plan, int64_t alignment) {
  for (size_t a = 0; a < blocks.size(); ++a) {
    if (plan.offset[a] % alignment != 0 || plan.offset[a] + blocks[a].bytes > plan.bytes) return false;
    for (size_t b = a + 1; b < blocks.size(); ++b) {
      const bool together = blocks[a].first <= blocks[b].last && blocks[b].first <= blocks[a].last;
      const bool apart = plan.offset[a] + blocks[a].bytes <= plan.offset[b] ||
                         plan.offset[b] + blocks[b].bytes <= plan.offset[a];
      if (together && !apart && blocks[a].bytes > 0 && blocks[b].bytes > 0) return false;
    }
  }
  return true;
}
}  // namespace

TEST_CASE("plans of random blocks are right, and close to the bound") {
  const uint64_t seed = test::fresh_seed();
  INFO("TINYTORCH_TEST_SEED=", seed);
  tt::Generator random(seed);
  double excess = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    const Blocks blocks = random_blocks(random, 1 + static_cast<int>(random.below(60)), 40);
    const int64_t alignment = round % 2 == 0 ? 1 : 64;
    const tt::Placement plan = tt::place(blocks, alignment);
    REQUIRE(is_right(blocks, plan, alignment));
    const auto fault = tt::check_placement(blocks, plan, alignment);
    REQUIRE_MESSAGE(!fault, *fault);
    const int64_t bound = tt::peak(tt::timeline(blocks, 40));
    REQUIRE(plan.bytes >= bound);
    if (alignment == 1)
      excess += bound > 0 ? static_cast<double>(plan.bytes) / static_cast<double>(bound) - 1 : 0;
  }
  CHECK(excess / (kRounds / 2) < 0.10);
}

TEST_CASE("the checker agrees with every pair of blocks on damaged plans") {
  const uint64_t seed = test::fresh_seed();
  INFO("TINYTORCH_TEST_SEED=", seed);
  tt::Generator random(seed);
  int rejected = 0;
  for (int round = 0; round < 300; ++round) {
    const Blocks blocks = random_blocks(random, 2 + static_cast<int>(random.below(30)), 20);
    tt::Placement plan = tt::place(blocks, 1);
    plan.offset[random.below(blocks.size())] = static_cast<int64_t>(random.below(4000));
    const bool right = is_right(blocks, plan, 1);
    REQUIRE(right == !tt::check_placement(blocks, plan, 1).has_value());
    rejected += right ? 0 : 1;
  }
  CHECK(rejected > 30);
}

TEST_CASE("a plan of nothing, blocks of no bytes, and plans of the wrong form") {
  CHECK(tt::place({}).bytes == 0);
  const Blocks empty = {{0, 0, 3}, {0, 1, 2}};
  CHECK(tt::place(empty).bytes == 0);
  CHECK(!tt::check_placement(empty, tt::place(empty)));
  const Blocks one = {{100, 0, 1}};
  CHECK(tt::check_placement(one, {{}, 100})->find("0 offsets for 1 blocks") != std::string::npos);
  CHECK(tt::check_placement(one, {{32}, 200})->find("multiple of 64") != std::string::npos);
  CHECK(tt::check_placement(one, {{-64}, 200}).has_value());
  CHECK(tt::check_placement(one, {{64}, 163})->find("ends after the arena") != std::string::npos);
}

TEST_CASE("blocks that follow each other share memory, and neighbours in time do not") {
  const Blocks chain = {{64, 0, 1}, {64, 1, 2}, {64, 2, 3}, {64, 3, 4}};
  CHECK(tt::place(chain).bytes == 128);
  const Blocks hole = {{64, 0, 9}, {128, 0, 1}, {64, 0, 9}, {128, 2, 9}};
  CHECK(tt::place(hole).bytes == 256);
}
