// Arguments of the kernels of additive attention. Arrays are dense float32 with axes in the order of the
// comments. fused_additive/native.py has the same structures `Problem` and `Gradients`.
#pragma once

#include "numbers.hpp"

/// Span of the visible keys of a query: from `first` to before `end`.
struct Span {
  std::int32_t first, end;
};

struct Problem {
  Index batch, target, source, size;
  const float* queries;            // batch x target x size
  const float* keys;               // batch x source x size
  const float* powers;             // of the keys if the caller has them, else null: e^{2k}, batch x
                                   // source x size; or split powers, batch x source x 2 size: for each key
                                   // the mantissas, then the exponents, e^{2k} = mantissa * 2^exponent
  const float* vector;             // size
  const std::uint8_t* mask;        // keys visible to a query; null: all are
  Index mask_batch, mask_row;      // strides of the mask to the next sentence and query; 0: shared
  Index threads, is_split;         // is_split: whether `powers` are split powers
  Index bytes[5];  // of each array above, in their order; 0 for null
};

struct Gradients {
  const float* scores;  // batch x target x source; 0 for hidden pairs
  float* queries;       // batch x target x size, or null if not needed
  float* keys;          // batch x source x size, or null if not needed
  double* sigmoids;       // batch x size: sum of g s over the pairs; null if `keys` is
  Index bytes[4];       // of each array above
};

/// Values computed once for all sentences of a problem.
struct Plan {
  float unit;            // unit of 1 / v
  const float* inverse;  // unit / v; null if v is too uneven for its inverse to be used
  float largest;         // largest absolute value of `inverse`
  const Span* spans;     // of every row of the mask, or null
  Index span_batch, span_row;
  const std::uint8_t* seen;  // batch x source: keys visible to any query, or null
  Index seen_batch;
};

constexpr Index TILE_ROWS = 16;  // queries whose scores are computed together

inline Index tile_room(const Problem& problem) { return TILE_ROWS * (4 * problem.size + 1); }

/// Largest number of each key, powers and split powers.
inline Index keys_room(const Problem& problem) {
  return problem.source * (problem.powers ? 1 : 1 + 3 * problem.size);
}
