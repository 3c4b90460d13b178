# Libraries of all in-tree programs: examples, milestones, benchmarks, the judge, tests.

find_package(nlohmann_json QUIET)
find_package(CLI11 QUIET)
find_package(Eigen3 QUIET NO_MODULE)
# tinymlperf_board: the packages of bundles and of the leaderboard. If one is missing, tinymlperf is built without both,
# and says so.
add_library(tinymlperf_board INTERFACE)
find_path(TINYMLPERF_HTTPLIB_INCLUDE httplib.h)
find_library(TINYMLPERF_HTTPLIB_LIBRARY cpp-httplib)
find_package(SQLite3 QUIET)
find_package(LibArchive QUIET)
find_package(OpenSSL QUIET)
mark_as_advanced(TINYMLPERF_HTTPLIB_INCLUDE TINYMLPERF_HTTPLIB_LIBRARY)
if(TINYMLPERF_HTTPLIB_INCLUDE AND TINYMLPERF_HTTPLIB_LIBRARY AND SQLite3_FOUND AND LibArchive_FOUND AND OpenSSL_FOUND)
  set(with_board ON)
  target_link_libraries(tinymlperf_board INTERFACE "${TINYMLPERF_HTTPLIB_LIBRARY}" SQLite::SQLite3 LibArchive::LibArchive
                                                   OpenSSL::Crypto)
  target_compile_definitions(tinymlperf_board INTERFACE TINYMLPERF_WITH_BOARD=1)
else()
  set(with_board OFF)
  message(STATUS "tinytorch: tinymlperf is built without bundles and leaderboard, which need cpp-httplib, SQLite, "
                 "libarchive and OpenSSL")
endif()

# tinytorch_tools: the compiled library, and the libraries that only in-tree programs may use.
add_library(tinytorch_tools INTERFACE)
target_include_directories(tinytorch_tools INTERFACE "${PROJECT_SOURCE_DIR}/bench")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/source_folder.cpp" @ONLY CONTENT
     "#include <tree/source_folder.hpp>\nconst char* const tinytorch_tree::kSourceFolder = \"@PROJECT_SOURCE_DIR@\";\n")
add_library(tinytorch_source_folder STATIC EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/generated/source_folder.cpp")
target_include_directories(tinytorch_source_folder PRIVATE "${PROJECT_SOURCE_DIR}/bench")
target_link_libraries(tinytorch_tools INTERFACE tinytorch_source_folder tinytorch::compiled tinytorch_in_tree
  "$<TARGET_NAME_IF_EXISTS:nlohmann_json::nlohmann_json>" "$<TARGET_NAME_IF_EXISTS:CLI11::CLI11>")

# NVRTC compiles the CUDA sources of submissions. The runtime can launch the result since CUDA 12.6.
if(with_cuda STREQUAL "ON" AND TARGET CUDA::nvrtc AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.6)
  list(GET CUDAToolkit_INCLUDE_DIRS 0 cuda_include)
  target_link_libraries(tinytorch_tools INTERFACE CUDA::nvrtc)
  target_compile_definitions(tinytorch_tools INTERFACE "TINYMLPERF_NVRTC_INCLUDE=\"${cuda_include}\"")
endif()
