// A vector register as a number: arithmetic on LANES floats, in the vector types of GCC and Clang. The
// compiler's target decides whether it becomes AVX-512, AVX2, SSE2 or NEON.
//
// All functions are in an unnamed namespace: each instruction set has its own copies, which the linker
// must never mix.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "numbers.hpp"
#if defined(__SSE2__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns of its own header
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
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

/// Load the first `count` numbers, with `rest` in the other lanes. No other memory is read. Whole
/// vectors have a branch, because copying a number of bytes that the compiler does not know is a call.
/// Sanitizers see that copy, but not the instruction for some lanes.
inline Vector load(const float* from, int count, float rest = 0) {
  if (count == LANES) return load(from);
#if defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__)
  return (Vector)_mm512_mask_loadu_ps((__m512)same(rest), __mmask16((1u << count) - 1), from);
#elif defined(__AVX__) && !defined(__SANITIZE_ADDRESS__)
  const Integers lanes = Integers{0, 1, 2, 3, 4, 5, 6, 7} < count;
  return lanes ? (Vector)_mm256_maskload_ps(from, (__m256i)lanes) : same(rest);
#else
  Vector vector = same(rest);
  std::memcpy(&vector, from, sizeof(float) * count);
  return vector;
#endif
}

inline void store(float* to, Vector vector, int count) {
  if (count == LANES) return store(to, vector);
#if defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__)
  _mm512_mask_storeu_ps(to, __mmask16((1u << count) - 1), (__m512)vector);
#else
  std::memcpy(to, &vector, sizeof(float) * count);
#endif
}

// ----------------------------------------------------------------------- bfloat16, one by one and many

typedef std::uint16_t Halves __attribute__((vector_size(2 * LANES)));
typedef std::uint32_t Bits __attribute__((vector_size(4 * LANES)));

inline Vector widen(Halves halves) {
  return (Vector)(__builtin_convertvector(halves, Bits) << 16);
}

/// Rounded to the nearest; ties to even.
inline Halves narrow(Vector vector) {
  const Bits bits = (Bits)vector;
  const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Bits not_a_number = (bits >> 16) | 0x40u;
  return __builtin_convertvector(vector == vector ? rounded : not_a_number, Halves);
}

inline Vector load(const BFloat16* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  return widen(halves);
}

inline Vector load(const BFloat16* from, int count, float rest = 0) {
  if (count == LANES) return load(from);
  Halves halves = narrow(same(rest));
  std::memcpy(&halves, from, sizeof(BFloat16) * count);
  return widen(halves);
}

inline void store(BFloat16* to, Vector vector, int count) {
  const Halves halves = narrow(vector);
  if (count == LANES) return void(std::memcpy(to, &halves, sizeof halves));
  std::memcpy(to, &halves, sizeof(BFloat16) * count);
}

inline float number(float from) { return from; }
inline float number(BFloat16 from) { return load(&from, 1)[0]; }

template <typename Number>
inline Number as_number(float from) {
  Number found;
  store(&found, same(from), 1);
  return found;
}

inline Vector absolute(Vector x) { return (Vector)((Integers)x & 0x7fffffff); }

/// x if x < y, else y; y if a number is NaN. GCC makes several instructions of `?:`.
inline Vector minimum(Vector x, Vector y) {
#if defined(__AVX512F__)
  return (Vector)_mm512_min_ps((__m512)x, (__m512)y);
#elif defined(__AVX__)
  return (Vector)_mm256_min_ps((__m256)x, (__m256)y);
#elif defined(__SSE2__)
  return (Vector)_mm_min_ps((__m128)x, (__m128)y);
#else
  return x < y ? x : y;
#endif
}

/// x if x > y, else y; y if a number is NaN.
inline Vector maximum(Vector x, Vector y) {
#if defined(__AVX512F__)
  return (Vector)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined(__AVX__)
  return (Vector)_mm256_max_ps((__m256)x, (__m256)y);
#elif defined(__SSE2__)
  return (Vector)_mm_max_ps((__m128)x, (__m128)y);
#else
  return x > y ? x : y;
#endif
}

/// NaN if either is NaN.
inline Vector larger(Vector x, Vector y) {
  const Vector greater = maximum(y, x);  // NaN if x is
  return y == y ? greater : y;
}

/// The nearest number from -limit to limit; NaN becomes limit.
inline Vector within(Vector x, float limit) {
  return maximum(minimum(x, same(limit)), same(-limit));
}

inline bool all(Integers condition) {
  std::int32_t every = -1;
  for (int lane = 0; lane < LANES; ++lane) every &= condition[lane];
  return every != 0;
}

/// Whether a lane is NaN.
inline bool any_nan(Vector x) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q) != 0;
#elif defined(__AVX__)
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q)) != 0;
#elif defined(__SSE2__)
  return _mm_movemask_ps(_mm_cmpunord_ps((__m128)x, (__m128)x)) != 0;
#else
  return !all(x == x);
#endif
}

/// Whether a lane is above a limit.
inline bool any_above(Vector x, float limit) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)x, (__m512)same(limit), _CMP_GT_OQ) != 0;
#elif defined(__AVX__)
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, (__m256)same(limit), _CMP_GT_OQ)) != 0;
#elif defined(__SSE2__)
  return _mm_movemask_ps(_mm_cmpgt_ps((__m128)x, (__m128)same(limit))) != 0;
#else
  return !all(!(x > limit));
#endif
}

/// Whether every lane is at most a limit; false if a lane or the limit is NaN.
inline bool all_at_most(Vector x, float limit) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)x, (__m512)same(limit), _CMP_NLE_UQ) == 0;
#elif defined(__AVX__)
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, (__m256)same(limit), _CMP_NLE_UQ)) == 0;
#elif defined(__SSE2__)
  return _mm_movemask_ps(_mm_cmpnle_ps((__m128)x, (__m128)same(limit))) == 0;
#else
  return all(x <= limit);
#endif
}

/// Number of values of a vector from `place` to before `end`.
inline int lanes_from(std::int64_t place, std::int64_t end) {
  return end - place < LANES ? int(end - place) : LANES;
}

/// Call work(place, count) for every vector of an array. The count is a constant for all vectors but
/// the last, so that their loads and stores are those of whole vectors.
template <typename Work>
inline void over(std::int64_t size, const Work& work) {
  std::int64_t place = 0;
  for (; place + LANES <= size; place += LANES) work(place, std::integral_constant<int, LANES>{});
  if (place < size) work(place, int(size - place));
}

/// 1 in the first lanes, 0 in the others.
inline Vector first_lanes(int count) {
  Vector vector{};
  for (int lane = 0; lane < count; ++lane) vector[lane] = 1;
  return vector;
}

/// 1 / x for x from 1 to 2^41, and 0 or NaN for an infinite x. With AVX-512, and with ESTIMATES, by an
/// estimate and a Newton step, which takes the time of a division on some machines and a third of it
/// on others. With these, 0 and numbers near the ends of float's range have other results.
inline Vector inverse(Vector x) {
#if defined(__AVX512F__)
  const Vector estimate = (Vector)_mm512_rcp14_ps((__m512)x);
  return estimate * (2.0f - x * estimate);
#elif defined(ESTIMATES)
  const Vector estimate = (Vector)_mm256_rcp_ps((__m256)x);
  return estimate * (2.0f - x * estimate);
#else
  return 1.0f / x;
#endif
}

/// Lanes of x, then those of y. GCC before 12 has another name for this.
template <std::size_t... lane>
inline Vector choose(Vector x, Vector y) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(x, y, lane...);
#else
  return __builtin_shuffle(x, y, Integers{std::int32_t(lane)...});
#endif
}

template <std::size_t... lane>
inline Vector sum_neighbours(Vector x, Vector y, std::index_sequence<lane...>) {
  return choose<(2 * lane)...>(x, y) + choose<(2 * lane + 1)...>(x, y);
}

/// The sums of LANES vectors, which are overwritten. With AVX2, neighbours are first moved within halves
/// of a vector, for which there is one instruction.
inline Vector sums(Vector (&vectors)[LANES]) {
#if defined(__AVX__) && !defined(__AVX512F__)
  for (int left = LANES / 2; left > 1; left /= 2)
    for (int i = 0; i < left; ++i) {
      const Vector x = vectors[2 * i], y = vectors[2 * i + 1];
      vectors[i] = choose<0, 2, 8, 10, 4, 6, 12, 14>(x, y) + choose<1, 3, 9, 11, 5, 7, 13, 15>(x, y);
    }
  return choose<0, 1, 2, 3, 8, 9, 10, 11>(vectors[0], vectors[1]) +
         choose<4, 5, 6, 7, 12, 13, 14, 15>(vectors[0], vectors[1]);
#else
  for (int left = LANES / 2; left > 0; left /= 2)
    for (int i = 0; i < left; ++i)
      vectors[i] = sum_neighbours(vectors[2 * i], vectors[2 * i + 1],
                                  std::make_index_sequence<LANES>{});
  return vectors[0];
#endif
}

/// The first halves of two vectors, or the second ones (`start` is half of the lanes), in turns.
template <int start, std::size_t... lane>
inline Vector interleaved(Vector x, Vector y, std::index_sequence<lane...>) {
  return choose<(lane / 2 + start + lane % 2 * LANES)...>(x, y);
}

/// Transpose a square block. Each round interleaves the vectors of both halves of the block.
inline void transpose(Vector (&block)[LANES]) {
  constexpr int half = LANES / 2;
  constexpr std::make_index_sequence<LANES> lanes;
  for (int round = 1; round < LANES; round *= 2) {
    Vector before[LANES];
    for (int i = 0; i < LANES; ++i) before[i] = block[i];
    for (int i = 0; i < half; ++i) {
      block[2 * i] = interleaved<0>(before[i], before[i + half], lanes);
      block[2 * i + 1] = interleaved<half>(before[i], before[i + half], lanes);
    }
  }
}

/// All lanes combined: each half of the lanes with the other half, until one number is left.
template <int half = LANES / 2, typename Combine, std::size_t... lane>
inline float combined(Vector x, const Combine& combine, std::index_sequence<lane...> lanes) {
  if constexpr (half == 0)
    return x[0];
  else
    return combined<half / 2>(combine(x, choose<((lane + half) % LANES)...>(x, x)), combine, lanes);
}

template <typename Combine>
inline float combined(Vector x, const Combine& combine) {
  return combined(x, combine, std::make_index_sequence<LANES>{});
}

inline float sum(Vector x) {
  return combined(x, [](Vector a, Vector b) { return a + b; });
}

/// NaN if a lane is NaN.
inline float largest(Vector x) {
  return combined(x, larger);
}

/// e^r for |r| <= ln(2) / 2, by its series, whose next term is below 6e-9.
inline Vector exponential_series(Vector r) {
  Vector series = same(1.0f / 5040);
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  return series * r + 1.0f;
}

/// e^x for |x| <= 87, to about one unit in the last place: x = n ln 2 + r, e^x = 2^n e^r.
inline Vector exponential(Vector x) {
  constexpr float rounding = 12582912.0f;  // 1.5 * 2^23: the last bits of a sum with it are those of an integer
  Vector shifted = x * 1.44269504f + rounding;
  Vector n = shifted - rounding;
  Vector r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  return (Vector)((Integers)exponential_series(r) + ((Integers)shifted << 23));
}

constexpr float VANISHES = -87.0f;  // e^x of smaller x is not a normal number

/// e^x for x <= 0, for a softmax: 0 for very small x.
inline Vector power_below(Vector x) {
  const Vector found = exponential(within(x, -VANISHES));
  return x > VANISHES ? found : x == x ? Vector{} : x;
}

}  // namespace
