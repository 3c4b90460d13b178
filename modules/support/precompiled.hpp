// What every check includes, parsed once. Nothing here may be a header that a student replaces.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <support/check.hpp>
#include <vector>
