// Umbrella header of kv_cache/: the caches of keys and values, and the interface by which attention uses
// them.
//
// It includes every header of the folder. A program that includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/kv_cache/attention_cache.hpp>
#include <tinytorch/kv_cache/blocks.hpp>
#include <tinytorch/kv_cache/cache.hpp>
#include <tinytorch/kv_cache/compare_caches.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/kv_cache/eviction.hpp>
#include <tinytorch/kv_cache/paged.hpp>
#include <tinytorch/kv_cache/prefix.hpp>
#include <tinytorch/kv_cache/ring.hpp>
