// What the checks of all kernels share: the interface, numbers of both types, and judging.
//
// Arrays end where their numbers do, so that the sanitizers see who goes beyond, and results begin as
// no numbers, so that whoever forgets one is seen as well.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <vector>

#include "models/encoder.hpp"
#include "models/recurrent_step.hpp"
#include "sizes.hpp"

extern "C" {
int regard_lanes(int);
int regard_byte_products(int);
int regard_estimates(int);
int regard_additive_weigh(const Problem*, int, float, float*, Index);
int regard_additive_differentiate(const Problem*, const Gradients*);
int regard_additive_through_softmax(const float*, float*, float, Index, Index, Index, Index, Index);
int regard_cell_step(const CellStep*);
int regard_cell_back(const CellBack*);
int regard_cross_entropy(const Entropy*, double*, Index);
int regard_cross_entropy_back(const Entropy*, float);
int regard_attend(const Dots*, Index);
int regard_drop(const Dropping*);
int regard_candidates(const Candidates*);
int regard_pack(const float*, Index, const Packed*);
int regard_multiply(const Product*);
int regard_decoder_step(const DecoderStep*);
int regard_encode(const EncoderPass*);
int regard_recurrent_step(const RecurrentStep*);
}

using Random = std::mt19937;

// Each tries one kernel with problems of many shapes, and says how many there were.
int check_additive(Random&);
int check_candidates(Random&);
int check_cells(Random&);
int check_dots(Random&);
int check_dropout(Random&);
int check_encoder(Random&);
int check_entropy(Random&);
int check_integers(Random&);
int check_products(Random&);
int check_recurrent_steps(Random&);
int check_steps(Random&);

constexpr Index THREADS = 4;

/// Sizes around those of vectors with 4, 8 and 16 lanes.
constexpr Index ODD_SIZES[] = {1, 3, 7, 17, 37};

inline double value(double number) { return number; }

inline double value(BFloat16 number) {
  const std::uint32_t bits = std::uint32_t(number.bits) << 16;
  float found;
  std::memcpy(&found, &bits, sizeof found);
  return found;
}

template <typename Number>
constexpr bool IS_BFLOAT16 = std::is_same_v<Number, BFloat16>;

/// What is left when a number loses the digits that its type has no room for.
template <typename Number>
Number shortened(double number) {
  const float whole = float(number);
  if constexpr (!IS_BFLOAT16<Number>) return whole;
  else {
    std::uint32_t bits;
    std::memcpy(&bits, &whole, sizeof bits);
    return BFloat16{std::uint16_t(bits >> 16)};
  }
}

/// Normal numbers.
template <typename Number>
std::vector<Number> drawn(Random& random, Index count, double factor = 1) {
  std::normal_distribution<double> normal;
  std::vector<Number> numbers(count);
  for (Number& number : numbers) number = shortened<Number>(factor * normal(random));
  return numbers;
}

/// Room for results.
template <typename Number>
std::vector<Number> unknown(Index count) {
  return std::vector<Number>(count, shortened<Number>(NAN));
}

inline void must(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  std::exit(1);
}

inline void must_run(int status) {
  must(status != WRONG_SIZES, "a kernel refused arrays that fit");
  must(status == 0, "a kernel had too little memory");
}

/// Bytes of an array.
template <typename Number>
Index bytes(const std::vector<Number>& numbers) {
  return Index(numbers.size() * sizeof(Number));
}

/// Whether some numbers have the same bits.
inline bool are_equal(const float* numbers, const float* others, Index count) {
  return count == 0 || std::memcmp(numbers, others, sizeof(float) * count) == 0;
}

/// How many wrong calls were refused so far.
inline int refused = 0;

inline void must_refuse(int status) {
  must(status == WRONG_SIZES, "a kernel ran with arrays that are too small");
  ++refused;
}

/// Sizes that no array here has.
constexpr Index WRONG[] = {-1, Index(1) << 40, INT64_MAX, INT64_MIN};

/// run(problem) with each array a byte too short, then with each of some sizes wrong.
template <typename Problem, typename Run>
void must_refuse_wrong(const Problem& right, std::initializer_list<Index Problem::*> sizes, const Run& run) {
  for (std::size_t i = 0; i < std::size(right.bytes); ++i) {
    if (right.bytes[i] == 0) continue;
    Problem wrong = right;
    wrong.bytes[i] -= 1;
    must_refuse(run(wrong));
  }
  for (Index Problem::*size : sizes) {
    Problem wrong = right;
    wrong.*size += 1;
    must_refuse(run(wrong));
    for (Index value : WRONG) {
      wrong.*size = value;
      must_refuse(run(wrong));
    }
  }
}

/// How far numbers of a type may be from right ones: some roundings.
template <typename Number>
constexpr double NEAR = IS_BFLOAT16<Number> ? 0x1p-8 : 1e-5;

template <typename Number>
void compare(const char* what, const std::vector<Number>& ours, const std::vector<double>& right,
             double tolerance = NEAR<Number>) {
  must(ours.size() == right.size(), what);
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double found = value(ours[i]);
    if (found == right[i] || std::fabs(found - right[i]) <= tolerance * (1 + std::fabs(right[i])))
      continue;
    std::printf("%s: number %zu is %g, not %g\n", what, i, found, right[i]);
    std::exit(1);
  }
}
