// Headers that every check includes, parsed once. A header that a student replaces must not be here.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <support/check.hpp>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

// These templates are compiled once, in precompiled.cpp, so that a check compiles in a tenth less time.
namespace std {
extern template class basic_string<char>;
extern template class vector<float>;
extern template class vector<double>;
extern template class vector<int>;
extern template class vector<int64_t>;
extern template class vector<bool>;
extern template class vector<byte>;
extern template class vector<string>;
extern template class map<string, vector<double>>;
}  // namespace std
