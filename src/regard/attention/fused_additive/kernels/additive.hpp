// What the kernels of every instruction set are called with. All arrays are dense, float32, in the
// order of their axes; native.py must agree on `Problem` and `Gradients`.
#pragma once

#include <cstdint>

using Index = std::int64_t;

/// The keys from the first that a query sees to before `end`, after which it sees none.
struct Span {
  std::int32_t first, end;
};

struct Problem {
  Index batch, target, source, size;
  const float* queries;            // batch x target x size
  const float* keys;               // batch x source x size
  const float* powers;             // batch x source x size: e^{2k} where it is there already, or null
  const float* vector;             // size
  const std::uint8_t* mask;        // which keys a query sees; null where it sees all
  Index mask_batch, mask_row;      // steps of the mask to the next sentence and query; 0: the same
  Index threads;
};

struct Gradients {
  const float* scores;  // batch x target x source; 0 where a pair is hidden
  float* queries;       // batch x target x size, or null where not wanted
  float* keys;          // batch x source x size, or null where not wanted
  double* shares;       // batch x size: sum of g s over the pairs; null where `keys` are
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

/// The functions of one instruction set.
struct Kernels {
  int lanes;  // numbers in its vectors

  /// e^{2x}; NaN where x is outside of the range in which that is a good number.
  void (*powers)(const float* from, float* to, Index count);

  /// Scores without their constant of the queries from `first` to before `end` of a sentence, or
  /// the softmax of `scale` times them. `powers` are e^{2k} of its keys. Room: tile_room(problem).
  void (*weigh)(const Problem&, const Plan&, Index sentence, Index first, Index end,
                const float* powers, bool softmax, float scale, float* weights, float* room);

  /// Gradients of `lanes` numbers of all queries and keys of a sentence, from `place` on.
  /// Room: 2 * (target + source) * lanes.
  void (*differentiate_slice)(const Problem&, const Plan&, const Gradients&, Index sentence,
                              Index place, float* room);

  /// The gradient of one query alone, where the keys' powers are there. Room: size.
  void (*differentiate_query)(const Problem&, const Plan&, const Gradients&, Index sentence,
                              Index row, float* room);

  /// scale * w (g - sum(w g)) of a row, in the place of g; 0 where w is.
  void (*through_softmax)(const float* weights, float* grads, float scale, Index count);
};

constexpr Index TILE_ROWS = 16;  // queries whose scores are formed together

inline Index tile_room(const Problem& problem) { return 2 * TILE_ROWS * problem.size; }
