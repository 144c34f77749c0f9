// What the kernels of additive attention are called with. All arrays are dense, float32, in the order
// of their axes; fused_additive/native.py must agree on `Problem` and `Gradients`.
#pragma once

#include "numbers.hpp"

/// The keys from the first that a query sees to before `end`, after which it sees none.
struct Span {
  std::int32_t first, end;
};

struct Problem {
  Index batch, target, source, size;
  const float* queries;            // batch x target x size
  const float* keys;               // batch x source x size
  const float* powers;             // of the keys, where they are there already, or null: e^{2k}, batch x
                                   // source x size; or split powers, batch x source x 2 size: of each key
                                   // the mantissas, then the exponents, e^{2k} = mantissa * 2^exponent
  const float* vector;             // size
  const std::uint8_t* mask;        // which keys a query sees; null where it sees all
  Index mask_batch, mask_row;      // steps of the mask to the next sentence and query; 0: the same
  Index threads, is_split;         // is_split: whether `powers` are split powers
  Index bytes[5];  // of each array above, in their order; 0 for null
};

struct Gradients {
  const float* scores;  // batch x target x source; 0 where a pair is hidden
  float* queries;       // batch x target x size, or null where not wanted
  float* keys;          // batch x source x size, or null where not wanted
  double* sigmoids;       // batch x size: sum of g s over the pairs; null where `keys` are
  Index bytes[4];       // of each array above
};

/// What the library has found out about a problem before its sentences are worked on.
struct Plan {
  float unit;            // 1 / v is taken in units of it
  const float* inverse;  // unit / v; null where v is too uneven for its inverse to be used
  const Span* spans;     // of every row of the mask, or null
  Index span_batch, span_row;
  const std::uint8_t* seen;  // batch x source: whether any query sees a key, or null
  Index seen_batch;
};

constexpr Index TILE_ROWS = 16;  // queries whose scores are formed together

inline Index tile_room(const Problem& problem) { return TILE_ROWS * (4 * problem.size + 1); }

/// Largest number of each key, powers and split powers.
inline Index keys_room(const Problem& problem) {
  return problem.source * (problem.powers ? 1 : 1 + 3 * problem.size);
}
