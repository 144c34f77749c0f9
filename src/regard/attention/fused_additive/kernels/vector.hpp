// A vector register as a number: arithmetic on LANES floats at once, in the vector types that GCC and
// Clang share. The same lines become AVX-512, AVX2, SSE2 or NEON by the compiler's target alone.
//
// Everything here is in a namespace without a name: each instruction set has copies of its own, which
// the linker must never mix.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef std::int32_t Integers __attribute__((vector_size(4 * LANES)));

constexpr float NOT_A_NUMBER = __builtin_nanf("");

inline Vector same(float number) { return number - Vector{}; }

inline Vector load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

inline void store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof vector); }

/// The first `count` numbers, and `rest` in the other lanes: nothing beyond them is read.
inline Vector load(const float* from, int count, float rest = 0) {
  Vector vector = same(rest);
  std::memcpy(&vector, from, sizeof(float) * count);
  return vector;
}

inline void store(float* to, Vector vector, int count) {
  std::memcpy(to, &vector, sizeof(float) * count);
}

inline Vector absolute(Vector x) { return x < 0 ? -x : x; }

/// Where one of two is NaN, NaN.
inline Vector larger(Vector x, Vector y) { return (y > x) | (y != y) ? y : x; }

inline bool all(Integers condition) {
  std::int32_t every = -1;
  for (int lane = 0; lane < LANES; ++lane) every &= condition[lane];
  return every != 0;
}

/// How many numbers a vector holds from `place` to before `end`.
inline int lanes_from(std::int64_t place, std::int64_t end) {
  return end - place < LANES ? int(end - place) : LANES;
}

/// 1 in the first lanes, 0 in the others.
inline Vector first_lanes(int count) {
  Vector vector{};
  for (int lane = 0; lane < count; ++lane) vector[lane] = 1;
  return vector;
}

/// 1 / x; for an infinite x either 0 or NaN. With AVX-512 an estimate and a Newton step, which takes a
/// division's time on some machines and a third of it on others.
inline Vector inverse(Vector x) {
#if defined(__AVX512F__)
  Vector estimate = (Vector)_mm512_rcp14_ps((__m512)x);
  return estimate * (2.0f - x * estimate);
#else
  return 1.0f / x;
#endif
}

template <std::size_t... lane>
inline Vector sum_neighbours(Vector x, Vector y, std::index_sequence<lane...>) {
  return __builtin_shufflevector(x, y, (2 * lane)...) +
         __builtin_shufflevector(x, y, (2 * lane + 1)...);
}

/// The sums of as many vectors as one has lanes, which are lost.
inline Vector sums(Vector (&vectors)[LANES]) {
  for (int left = LANES / 2; left > 0; left /= 2)
    for (int i = 0; i < left; ++i)
      vectors[i] = sum_neighbours(vectors[2 * i], vectors[2 * i + 1],
                                  std::make_index_sequence<LANES>{});
  return vectors[0];
}

inline float sum(Vector vector) {
  float total = 0;
  for (int lane = 0; lane < LANES; ++lane) total += vector[lane];
  return total;
}

/// e^x for |x| <= 87, to about one unit in the last place: x = n ln 2 + r, e^x = 2^n e^r, and e^r by
/// its series, whose next term is below 6e-9.
inline Vector exponential(Vector x) {
  constexpr float rounding = 12582912.0f;  // 1.5 * 2^23: a sum with it has no digits behind the point
  Vector shifted = x * 1.44269504f + rounding;
  Vector n = shifted - rounding;
  Vector r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Vector series = same(1.0f / 5040);
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  Integers exponent = __builtin_convertvector(n, Integers) * (1 << 23);
  return (Vector)((Integers)series + exponent);
}

}  // namespace
