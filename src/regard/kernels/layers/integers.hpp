// Products of some rows with a weight of int8 numbers, for a search.
//
// A column of the weight is a scale t times integers w from -127 to 127. A row x is quantised at every
// call: a scale s times integers q from 0 to 127, plus the least number m of the row. The product is
//
//   x W^T = sum of (s q + m) t w = s t (sum of q w) + m t (sum of w)
//
// The sums of q w are exact, so every instruction set computes the same product.
//
// Panels have PANEL columns, as in products.hpp, but four inputs of a column lie side by side:
//
//   w00 w01 w02 w03  w10 w11 w12 w13 ..  wP0 wP1 wP2 wP3     then inputs 4 to 7, ..; zeros after the last
//
// Instructions for dot products of bytes (AVX-512 VNNI) multiply such a vector by four q, and add the four
// products. AVX2 and AVX-512 without them add pairs of products in 16 bits, then pairs of these sums. Because
// q has 7 bits, no sum of two products exceeds 2 * 127 * 127 < 2^15. Other instruction sets multiply 16-bit
// numbers in pairs: first inputs 0 and 2, then 1 and 3 of each column.
#pragma once

#include <cfloat>

#include "layers/products.hpp"

namespace {

typedef std::int16_t Words __attribute__((vector_size(4 * LANES)));
typedef std::int16_t HalfWords __attribute__((vector_size(2 * LANES)));
typedef std::uint8_t Bytes __attribute__((vector_size(LANES)));

/// A row in its room: s and m, then, from the next cache line on, the integers q. They are bytes, or
/// 16-bit numbers in the order 0 2 1 3, 4 6 5 7, ...
constexpr Index BEFORE_INTEGERS = 16;

#if defined(__AVX2__)
constexpr bool STORES_BYTES = true;
#else
constexpr bool STORES_BYTES = false;
#endif

/// The argument. The compiler cannot join the operation that computes it with another one: neither a
/// product and a sum, which would be rounded once, nor two sums, for which registers are missing.
template <typename Register>
inline Register computed(Register x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__SSE2__)
  asm("" : "+x"(x));
#elif defined(__aarch64__)
  asm("" : "+w"(x));
#endif
  return x;
}

template <std::size_t... lane>
inline Integers evens_first(Integers x, std::index_sequence<lane...>) {
  return (Integers)choose<(lane % 4 == 1 ? lane + 1 : lane % 4 == 2 ? lane - 1 : lane)...>((Vector)x, (Vector)x);
}

/// Store LANES integers of a row from place `i` on.
inline void store_integers(float* to, Index i, Integers q) {
  if constexpr (STORES_BYTES) {
    const Bytes bytes = __builtin_convertvector(q, Bytes);
    std::memcpy(reinterpret_cast<char*>(to) + i, &bytes, sizeof bytes);
  } else {
    const Integers ordered = evens_first(q, std::make_index_sequence<LANES>{});
    const HalfWords words = __builtin_convertvector(ordered, HalfWords);
    std::memcpy(reinterpret_cast<char*>(to) + 2 * i, &words, sizeof words);
  }
}

/// s is NaN for a row with NaN or infinity, and for one whose numbers are too far apart.
void quantise(const float* x, Index inner, float* room) {
  const Vector first = same(inner ? x[0] : 0);
  Vector least = first, most = first, unusual{};  // 0, or NaN
  over(inner, [&](Index i, auto count) {
    const Vector numbers = load(x + i, count, first[0]);
    least = minimum(least, numbers);
    most = maximum(most, numbers);
    unusual += numbers * 0.0f;
  });
  const float low = combined(least, [](Vector a, Vector b) { return minimum(a, b); });
  const float width = combined(most, [](Vector a, Vector b) { return maximum(a, b); }) - low;
  unusual += width * 0.0f;
  const float scale = width / LARGEST_INTEGER + sum(unusual);
  const float inverse = scale >= FLT_MIN ? 1 / scale : 0;
  constexpr float rounding = 12582912.0f;  // 1.5 * 2^23: the sum with it ends in the nearest integer
  room[0] = scale;
  room[1] = low;
  over(inner, [&](Index i, auto count) {
    const Vector level = computed((load(x + i, count, low) - low) * inverse);
    const Integers q = (Integers)(minimum(level, same(LARGEST_INTEGER)) + rounding) - (Integers)same(rounding);
    store_integers(room + BEFORE_INTEGERS, i, q);
  });
}

/// 32 bits in every lane.
inline Integers same_bits(const char* from) {
  std::int32_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits - Integers{};
}

inline Integers load_integers(const std::int8_t* from) {
  Integers bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

/// The results of `rows` rows and one panel.
template <int rows>
inline void finish(const Product& p, const float* room, const Integers (&sums)[rows][2], Index row, Index column) {
  const Packed& weight = *p.weight;
  const Index step = quantised_size(weight.inner);
  for (int half = 0; half < 2; ++half) {
    const Index place = column + half * LANES;
    if (place >= weight.columns) break;
    const int count = lanes_from(place, weight.columns);
    const Vector bias = weight.bias ? load(weight.bias + place, count) : Vector{};
    const Vector scales = load(weight.scales + place, count), totals = load(weight.totals + place, count);
    for (int i = 0; i < rows; ++i) {
      const float* quantised = room + (row + i) * step;
      const Vector sum = __builtin_convertvector(sums[i][half], Vector);
      const Vector product = computed(sum * computed(quantised[0] * scales)) + computed(quantised[1] * totals);
      const Index at = (row + i) * weight.columns + place;
      Vector y = activated(product + bias, p.activation);
      if (p.z) y += load(p.z + at, count);
      store(p.y + at, y, count);
    }
  }
}

/// The integers of a quantised row.
inline const char* integers_of(const float* room, Index row, Index inner) {
  return reinterpret_cast<const char*>(room + row * quantised_size(inner) + BEFORE_INTEGERS);
}

#if defined(__AVX2__)

/// q0 w0 + .. + q3 w3 of each four bytes.
inline Integers sums_of_four(Integers q, Integers w) {
#if defined(__AVX512BW__)
  return (Integers)_mm512_madd_epi16(_mm512_maddubs_epi16((__m512i)q, (__m512i)w), _mm512_set1_epi16(1));
#else
  return (Integers)_mm256_madd_epi16(_mm256_maddubs_epi16((__m256i)q, (__m256i)w), _mm256_set1_epi16(1));
#endif
}

/// Add the products with four inputs of each column.
template <int rows>
inline void add_products(Integers (&sums)[rows][2], const std::int8_t* panel, const char* q, Index step) {
  const Integers left = load_integers(panel), right = load_integers(panel + 4 * LANES);
  for (int i = 0; i < rows; ++i) {
    const Integers input = same_bits(q + i * step);
    sums[i][0] = computed(sums[i][0] + sums_of_four(input, left));
    sums[i][1] = computed(sums[i][1] + sums_of_four(input, right));
  }
}

#else

/// q0 w0 + q1 w1 of each pair of 16-bit numbers.
inline Integers sums_of_pairs(Words q, Words w) {
#if defined(__SSE2__) && !defined(__AVX__)
  return (Integers)_mm_madd_epi16((__m128i)q, (__m128i)w);
#else
  const Integers first = ((Integers)q << 16 >> 16) * ((Integers)w << 16 >> 16);
  return first + ((Integers)q >> 16) * ((Integers)w >> 16);
#endif
}

/// Add the products with the even (first) or odd inputs of each column.
template <int odd, int rows>
inline void add_pairs(Integers (&sums)[rows][2], const std::int8_t* panel, const char* q, Index step) {
  const auto words = [](Integers bytes) { return odd ? (Words)bytes >> 8 : (Words)bytes << 8 >> 8; };
  const Words left = words(load_integers(panel)), right = words(load_integers(panel + 4 * LANES));
  for (int i = 0; i < rows; ++i) {
    const Words input = (Words)same_bits(q + i * step + 4 * odd);
    sums[i][0] = computed(sums[i][0] + sums_of_pairs(input, left));
    sums[i][1] = computed(sums[i][1] + sums_of_pairs(input, right));
  }
}

/// Add the products with four inputs of each column.
template <int rows>
inline void add_products(Integers (&sums)[rows][2], const std::int8_t* panel, const char* q, Index step) {
  add_pairs<0>(sums, panel, q, step);
  add_pairs<1>(sums, panel, q, step);
}

#endif

template <int rows>
void multiply_plain(const Product& p, const float* room, const std::int8_t* panel, Index row, Index column) {
  const Index inner = p.weight->inner, step = sizeof(float) * quantised_size(inner);
  const char* q = integers_of(room, row, inner);
  Integers sums[rows][2];
  clear(sums);
  for (Index k = 0; k < inner; k += 4, panel += 4 * PANEL, q += STORES_BYTES ? 4 : 8)
    add_products(sums, panel, q, step);
  finish(p, room, sums, row, column);
}

#if defined(__AVX512F__)
template <int rows>
__attribute__((target("avx512vnni"))) void multiply_vnni(const Product& p, const float* room,
                                                         const std::int8_t* panel, Index row, Index column) {
  const Index inner = p.weight->inner, step = sizeof(float) * quantised_size(inner);
  const char* q = integers_of(room, row, inner);
  Integers sums[rows][2];
  clear(sums);
  for (Index k = 0; k < inner; k += 4, panel += 4 * PANEL, q += 4) {
    const Integers left = load_integers(panel), right = load_integers(panel + 4 * LANES);
    for (int i = 0; i < rows; ++i) {
      const __m512i input = (__m512i)same_bits(q + i * step);
      sums[i][0] = (Integers)_mm512_dpbusd_epi32((__m512i)sums[i][0], input, (__m512i)left);
      sums[i][1] = (Integers)_mm512_dpbusd_epi32((__m512i)sums[i][1], input, (__m512i)right);
    }
  }
  finish(p, room, sums, row, column);
}
#endif

template <int rows>
inline void multiply_rows(const Product& p, const float* room, const std::int8_t* panel, Index row, Index column) {
  request_results<rows>(p, row, column);
#if defined(__AVX512F__)
  if (has_byte_products()) return multiply_vnni<rows>(p, room, panel, row, column);
#endif
  multiply_plain<rows>(p, room, panel, row, column);
}

void multiply_integers(const Product& p, const float* room, Index first, Index end) {
  const Panels<std::int8_t> panels{p.weight->integers, (p.weight->inner + 3) / 4 * 4 * PANEL};
  over_blocks(p.rows, first, end, panels, [&](auto height, Index row, Index panel) {
    multiply_rows<height.value>(p, room, panels[panel], row, panel * PANEL);
  });
}

}  // namespace
