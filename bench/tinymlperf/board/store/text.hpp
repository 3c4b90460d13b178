// Text of users before it is stored or shown: valid UTF-8 without control characters.
#pragma once

#include <tinymlperf/support/foreign_text.hpp>

namespace tinymlperf::board {

using tinymlperf::clean;
using tinymlperf::code_point;
using tinymlperf::is_deceptive;
using tinymlperf::kReplacement;
using tinymlperf::utf8_length;

}  // namespace tinymlperf::board
