// Noise computed from a seed and a position, so that the backward pass can compute it again instead of
// storing it: two rounds of multiplications and shifts over a counter.
#pragma once

#include "vector.hpp"

namespace {

inline Bits mixed(Bits x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

inline Bits counted() {
  Bits lanes;
  for (int lane = 0; lane < LANES; ++lane) lanes[lane] = std::uint32_t(lane);
  return lanes;
}

/// Factors of the numbers from `place` on: 1 / keep, or 0 for dropped ones.
inline Vector kept_lanes(std::uint64_t seed, std::int64_t place, float keep) {
  const std::uint64_t start = std::uint64_t(place);
  const Bits low = counted() + std::uint32_t(start) + std::uint32_t(seed);
  const std::uint32_t high = std::uint32_t(start >> 32) ^ std::uint32_t(seed >> 32);
  const Bits noise = mixed(mixed(low) + high) >> 8;  // the number of bits that a float can distinguish
  const Vector share = __builtin_convertvector((Integers)noise, Vector) * 0x1p-24f;
  return share < keep ? same(1 / keep) : Vector{};
}

}  // namespace
