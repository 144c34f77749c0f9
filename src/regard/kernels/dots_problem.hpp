// What attention by dot products is called with. attention/dot/native.py must agree on both structures.
#pragma once

#include "numbers.hpp"

/// An array whose last axis is dense: how many numbers it is to the next sentence, head and position.
struct Strided {
  const void* numbers;
  Index batch, head, position;
};

struct Dots {
  Index batch, heads, target, source, size, value_size, is_bfloat16, causal, threads;
  Strided queries, keys, values;
  Strided context;  // what is found; on the way back its gradient, which came from above
  Strided grad_queries, grad_keys, grad_values;
  const std::uint8_t* mask;    // which keys a query sees, or null; the same for every head
  Index mask_batch, mask_row;  // steps of the mask to the next sentence and query; 0: the same
  float* weights;              // batch x head x target x source, before dropout; may be null on the way
                               // there
  float* scores;               // of the same axes: scale Q K^T, whatever the mask; may be null
  std::uint64_t seed;          // of dropout
  float keep, scale;           // the share of weights that dropout keeps: 1 where there is none
  Index bytes[10];             // of the seven arrays, the mask, the weights and the scores; 0 for null
};

inline Index room_of(const Dots& dots) {
  const Index size = dots.size + MOST_LANES, value_size = dots.value_size + MOST_LANES;
  const Index source = dots.source + MOST_LANES, larger = size > value_size ? size : value_size;
  return (2 * dots.target + dots.source) * size + (dots.source + dots.target) * value_size +
         larger * source + 2 * dots.target * source;
}
