#include <support/check.hpp>
#include <tinytorch/acceleration/plan.hpp>

using namespace course;

namespace {

using Blocks = std::vector<LiveBlock>;

int64_t below(int64_t n) { return static_cast<int64_t>(random_source()() % static_cast<uint64_t>(n)); }

// Blocks of few and of many bytes that live for a few steps or for many, as those of a model.
Blocks random_blocks(int count, int steps) {
  Blocks blocks;
  for (int k = 0; k < count; ++k) {
    const auto first = static_cast<int>(below(steps));
    const int length = static_cast<int>(below(10) < 7 ? below(3) : below(steps));
    const int64_t bytes = (1 + below(9)) * (below(10) < 3 ? 1000 : 100);
    blocks.push_back({below(20) == 0 ? 0 : bytes, first, std::min(first + length, steps - 1)});
  }
  return blocks;
}
std::string shown(const Blocks& blocks, const Placement& plan) {
  std::string text;
  for (size_t k = 0; k < blocks.size() && k < 30; ++k) {
    text += "\n  block " + std::to_string(k) + ": " + std::to_string(blocks[k].bytes) + " bytes, steps " +
            std::to_string(blocks[k].first) + " to " + std::to_string(blocks[k].last);
    if (k < plan.offset.size()) text += ", at " + std::to_string(plan.offset[k]);
  }
  return text + "\n  arena of " + std::to_string(plan.bytes) + " bytes";
}

// Checks every pair of blocks of a placement, and describes the first fault; empty if there is none.
std::string fault(const Blocks& blocks, const Placement& plan, int64_t alignment) {
  if (plan.offset.size() != blocks.size()) return "not one offset for each block";
  for (size_t a = 0; a < blocks.size(); ++a) {
    const std::string name = "block " + std::to_string(a);
    const int64_t begin = plan.offset[a], end = begin + blocks[a].bytes;
    if (begin < 0) return name + " has a negative offset";
    if (begin % alignment != 0) return name + " is not aligned to " + std::to_string(alignment);
    if (end > plan.bytes) return name + " ends behind the arena";
    for (size_t b = 0; b < a; ++b) {
      const int64_t begin_b = plan.offset[b], end_b = begin_b + blocks[b].bytes;
      const bool together = blocks[a].first <= blocks[b].last && blocks[b].first <= blocks[a].last;
      if (together && std::max(begin, begin_b) < std::min(end, end_b))
        return name + " overlaps block " + std::to_string(b);
    }
  }
  return {};
}
// The largest sum of live bytes.
int64_t bound(const Blocks& blocks) {
  int64_t most = 0;
  for (const LiveBlock& at : blocks) {  // the sum rises only where a block begins
    int64_t sum = 0;
    for (const LiveBlock& b : blocks) sum += b.first <= at.first && at.first <= b.last ? b.bytes : 0;
    most = std::max(most, sum);
  }
  return most;
}

Placement check_plan(const std::string& what, const Blocks& blocks, int64_t alignment) {
  const Placement plan = place(blocks, alignment);
  const std::string wrong = fault(blocks, plan, alignment);
  expect(what + ": the plan is right", wrong.empty(), wrong + shown(blocks, plan));
  int64_t end = 0;
  for (size_t k = 0; k < blocks.size(); ++k) {
    end = std::max(end, blocks[k].bytes == 0 ? 0 : plan.offset[k] + blocks[k].bytes);
    if (blocks[k].bytes == 0)
      expect_equal(what + ": the offset of a block of 0 bytes", plan.offset[k], int64_t{0});
  }
  expect_equal(what + ": the arena ends with its last block", plan.bytes, end);
  return plan;
}
// The checker says the same as every pair of blocks.
void check_checker(const Blocks& blocks, const Placement& plan, int64_t alignment) {
  const std::string wrong = fault(blocks, plan, alignment);
  const std::optional<std::string> said = check_placement(blocks, plan, alignment);
  expect("check_placement finds no fault" + shown(blocks, plan), said.has_value() || wrong.empty(),
         "but " + wrong);
  expect("check_placement finds a fault" + shown(blocks, plan), !said || !wrong.empty(),
         "there is none, but it says: " + said.value_or(""));
}
// Every block behind the one before: right, and wasteful.
Placement one_after_the_other(const Blocks& blocks, int64_t alignment) {
  Placement plan;
  for (const LiveBlock& b : blocks) {
    plan.offset.push_back(plan.bytes);
    plan.bytes += (b.bytes + alignment - 1) / alignment * alignment;
  }
  return plan;
}

}  // namespace

TEST_CASE("6.13 memory is used again behind a block's last step, not in it") {
  const Blocks apart = {{100, 0, 1}, {100, 2, 3}, {100, 4, 4}}, touching = {{100, 0, 1}, {100, 1, 2}};
  expect_equal("one after the other", check_plan("steps 0-1, 2-3 and 4", apart, 1).bytes, int64_t{100});
  expect_equal("a step of both", check_plan("steps 0-1 and 1-2", touching, 1).bytes, int64_t{200});
}

TEST_CASE("6.13 a block goes into the lowest gap that it fits") {
  // The blocks of 50 live always; those of 30 and 20 come and go, and fit where 60 was.
  const Blocks blocks = {{60, 0, 0}, {50, 0, 5}, {30, 1, 5}, {20, 1, 5}, {10, 1, 5}};
  expect_equal("30, 20 and 10 in the place of 60", check_plan("a gap of 60", blocks, 1).bytes, int64_t{110});
  expect_equal("aligned", check_plan("a gap, aligned to 64", blocks, 64).bytes % 64, int64_t{10});
}

TEST_CASE("6.13 nothing, blocks of 0 bytes, and gigabytes") {
  check_plan("no blocks", {}, 64);
  check_plan("blocks of 0 bytes", {{0, 0, 3}, {7, 0, 3}, {0, 1, 2}, {9, 2, 2}}, 64);
  const int64_t big = (int64_t{5} << 30) + 1;
  check_plan("gigabytes", {{big, 0, 2}, {big, 1, 3}, {big, 2, 2}, {7, 0, 3}}, 64);
}

TEST_CASE("6.13 random blocks: no two that live at the same time share a byte") {
  for (int round = 0; round < 400; ++round) {
    const int64_t alignments[] = {1, 16, 64, 4096};
    const int count = 1 + static_cast<int>(below(40)), steps = 1 + static_cast<int>(below(30));
    check_plan("random blocks", random_blocks(count, steps), alignments[round % 4]);
  }
}

TEST_CASE("6.13 the arena is on average at most 1.03 of the largest sum of live bytes") {
  double excess = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    const Blocks blocks = random_blocks(60, 60);
    excess += static_cast<double>(place(blocks, 1).bytes) / static_cast<double>(bound(blocks)) - 1;
  }
  char text[80];
  std::snprintf(text, sizeof text, "it is %.3f of it", 1 + excess / kRounds);
  expect("the average of the arenas", excess / kRounds <= 0.03, text);
}

TEST_CASE("6.13 the blocks of a large model take milliseconds") {
  const Blocks blocks = random_blocks(2000, 1500);
  const Placement plan = place(blocks, 64);
  expect("the plan is right", fault(blocks, plan, 64).empty(), fault(blocks, plan, 64));
  Blocks short_ones;  // 100,000 blocks of two steps: no two thousand of them live at once
  for (int k = 0; k < 100'000; ++k) short_ones.push_back({64, k, k + 1});
  Placement turns{std::vector<int64_t>(short_ones.size()), 128};
  for (size_t k = 0; k < turns.offset.size(); ++k) turns.offset[k] = k % 2 == 0 ? 0 : 64;
  expect("the checker finds no fault", !check_placement(short_ones, turns, 64));
}

TEST_CASE("6.13 the checker knows right plans from damaged ones") {
  for (int round = 0; round < 600; ++round) {
    const int64_t alignment = round % 2 ? 64 : 1;
    const Blocks blocks = random_blocks(1 + static_cast<int>(below(20)), 1 + static_cast<int>(below(15)));
    Placement plan = one_after_the_other(blocks, alignment);
    check_checker(blocks, plan, alignment);
    plan.offset[static_cast<size_t>(below(static_cast<int64_t>(blocks.size())))] =
        round % 3 ? plan.offset[static_cast<size_t>(below(static_cast<int64_t>(blocks.size())))]
                  : below(3000);
    check_checker(blocks, plan, alignment);
  }
}

TEST_CASE("6.13 the checker: offsets, alignment, and the end of the arena") {
  const Blocks two = {{100, 0, 1}, {100, 2, 3}}, nested = {{100, 0, 3}, {10, 1, 1}};
  check_checker(two, {{0, 0}, 100}, 64);
  check_checker(two, {{0, 0}, 99}, 64);
  check_checker(two, {{0, -64}, 200}, 64);
  check_checker(two, {{0, 32}, 200}, 64);
  check_checker(two, {{0}, 100}, 64);
  check_checker(two, {{0, 0, 0}, 100}, 64);
  check_checker(nested, {{0, 64}, 200}, 64);
  check_checker(nested, {{64, 0}, 200}, 64);
  check_checker({{100, 0, 3}, {10, 3, 5}}, {{0, 64}, 200}, 64);
  check_checker({{10, 0, 3}, {10, 0, 5}, {10, 1, 5}}, {{0, 64, 0}, 200}, 64);
  check_checker({{0, 0, 3}, {10, 0, 3}, {0, 1, 1}}, {{0, 0, 0}, 10}, 1);
  check_checker({}, {{}, 0}, 64);
  const int64_t big = int64_t{3} << 32;
  check_checker({{big, 0, 1}, {big, 1, 1}}, {{0, big}, 2 * big}, 64);
  check_checker({{big, 0, 1}, {big, 1, 1}}, {{0, big - 64}, 2 * big}, 64);
}
