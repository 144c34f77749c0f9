// Types of numbers and indices.
#pragma once

#include <cstdint>

using Index = std::int64_t;

constexpr Index MAX_LANES = 16;  // of any instruction set
constexpr Index LINE = 64;       // bytes of a line of the cache

/// A bfloat16: the upper half of a float.
struct BFloat16 {
  std::uint16_t bits;
};
