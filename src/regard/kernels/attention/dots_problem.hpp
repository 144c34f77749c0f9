// Arguments of attention by dot products. attention/dot/native.py has the same structures.
#pragma once

#include "numbers.hpp"

/// An array with a dense last axis, and its strides to the next sentence, head and position.
struct Strided {
  const void* numbers;
  Index batch, head, position;
};

struct Dots {
  Index batch, heads, target, source, size, value_size, is_bfloat16, causal, threads;
  Strided queries, keys, values;
  Strided context;  // the result; in the backward pass its gradient
  Strided grad_queries, grad_keys, grad_values;
  const std::uint8_t* mask;    // keys visible to a query, or null; the same for every head
  Index mask_batch, mask_row;  // strides of the mask to the next sentence and query; 0: shared
  float* weights;              // batch x head x target x source, before dropout; may be null in the
                               // forward pass
  float* scores;               // of the same axes: scale Q K^T before the mask; may be null
  std::uint64_t seed;          // of dropout
  float keep, scale;           // share of weights that dropout keeps: 1 without dropout
  Index bytes[10];             // of the seven arrays, the mask, the weights and the scores; 0 for null
};

inline Index room_of(const Dots& dots) {
  const Index size = dots.size + MAX_LANES, value_size = dots.value_size + MAX_LANES;
  const Index source = dots.source + MAX_LANES, larger = size > value_size ? size : value_size;
  return (2 * dots.target + dots.source) * size + (dots.source + dots.target) * value_size +
         larger * source + (2 * dots.target + 1) * source;
}
