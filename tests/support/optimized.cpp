// Nothing: what tests that are optimized include is precompiled beside it.
