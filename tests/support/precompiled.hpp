// What most tests include, parsed once for all of them (tests/CMakeLists.txt). Each test still names what it
// uses. Not nlohmann/json.hpp: g++ instantiates templates that a precompiled header uses in every file anew.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>
