// The layers of a Transformer's encoder: structures. regard/compiled/transformer/ has the same.
#pragma once

#include "models/step.hpp"

struct EncoderLayer {
  Packed projection, output, inner, outer;
  Norm self_norm, feed_forward_norm;
};

/// All layers for the sources of a batch.
struct EncoderPass {
  Index sentences, source, layers, heads, size, inner, norm_first, activation, threads;
  const EncoderLayer* layer;
  const float* embedded;     // sentences x source x size
  const std::uint8_t* mask;  // sentences x source: real positions, or null: all are real
  const float* cosines;      // source x numbers of a head, or null: no rotation
  const float* sines;
  float* states;             // layers x sentences x source x size; zeros at padding
  Norm last;
  float scale;
  Index bytes[6];  // of each array from `layer` to `states`; 0 for null
};
