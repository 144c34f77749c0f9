// A step of a Transformer's decoder: structures, and the kernels that each instruction set has of it.
// regard/numerics/panels.py and regard/compiled/transformer/ have the same structures.
#pragma once

#include "numbers.hpp"

enum Activation : Index { NONE, RELU, GELU, TANH };

/// Weight of a linear layer in panels of one instruction set, and its bias. The panels have float numbers
/// (products.hpp) or integers with a scale for each column (integers.hpp).
struct Packed {
  const float* panels;
  const std::int8_t* integers;  // instead of the panels, or null
  const float* bias;            // of each column, or null
  const float* scales;          // of each column of integers
  const float* totals;          // scale times the sum of the integers of each column
  Index columns, inner, lanes;
  Index bytes[5];  // of the arrays above
};

constexpr Index LARGEST_INTEGER = 127;  // of a quantised weight or row

/// Floats of room for a quantised row (integers.hpp): 16 for its scale and minimum, and two bytes for
/// each integer, as the baseline needs.
constexpr Index quantised_size(Index inner) { return 16 + (inner + 31) / 32 * 16; }

/// y = activation(x W^T + b) + z.
struct Product {
  const Packed* weight;
  const float* x;  // rows x inner
  float* y;        // rows x columns
  const float* z;  // like y; or null; may be y
  Index rows, x_step, activation, threads;
  Index bytes[3];  // of x, y and z; 0 for null
};

/// Weight and bias of a layer norm; null weights: the identity.
struct Norm {
  const float* weight;
  const float* bias;
  float epsilon;
  Index bytes[2];
};

/// Queries of the heads of some hypotheses, and keys and values of their sentences.
struct Heads {
  const float* queries;  // of a hypothesis, each of `heads` x `part` numbers
  const float* keys;     // of a sentence, each of `step` numbers
  const float* values;
  float* contexts;            // heads x part
  float* weights;             // heads x `between` numbers, of which `count` are written; or null
  float* scores;              // likewise, before the mask
  const Index* slots;         // positions to attend to, or null: the first `count`
  const std::uint8_t* mask;   // of each position, or null
  Index heads, part, count, step, between;
  float scale;
};

struct DecoderLayer {
  Packed projection, self_output, query, cross_output, inner, outer;
  Norm self_norm, cross_norm, feed_forward_norm;
};

/// All layers for one token of every hypothesis. `rows` are sentences x hypotheses. Sentences that are
/// done stay among the `stored` ones.
struct DecoderStep {
  Index sentences, stored, hypotheses, layers, heads, size, inner, positions, filled, capacity, source,
      norm_first, activation, threads;
  const DecoderLayer* layer;
  float* states;         // rows x size: embeddings, then features
  float* cache;          // layers x 2 x stored x capacity x size: keys and values of the tokens
  const float* memory;   // layers x 2 x stored x source x size: keys and values of the source
  const Index* entries;  // sentences: the number of each among the stored ones; each number once
  const Index* slots;    // rows x positions: cache positions that a hypothesis attends to
  const std::uint8_t* mask;  // stored x source: positions to attend to, or null
  const float* cosines;  // of a head's numbers at this position, or null: no rotation
  const float* sines;
  float* room;           // rows x (inner + 4 size)
  float* own;            // 2 x sentences x layers x heads x hypotheses x positions: weights, and scores
                         // before the mask, of the tokens; or null
  float* cross;          // 2 x sentences x layers x heads x hypotheses x source; or null
  Norm last;
  float self_scale, cross_scale;
  Index bytes[12];  // of each array from `layer` to `cross`; 0 for null
};
