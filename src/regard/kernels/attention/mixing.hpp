// Context of some rows of weights: weights times values.
#pragma once

#include "vector.hpp"

namespace {

template <int rows>
void mix_rows(const float* weights, const float* values, Index source, Index size, float* contexts) {
  over(size, [&](Index place, auto count) {
    Vector sums[rows] = {};
    for (Index j = 0; j < source; ++j) {
      const Vector value = load(values + j * size + place, count);
      for (int i = 0; i < rows; ++i) sums[i] += weights[i * source + j] * value;
    }
    for (int i = 0; i < rows; ++i) store(contexts + i * size + place, sums[i], count);
  });
}

void mix(const float* weights, const float* values, Index rows, Index source, Index size, float* contexts) {
  Index i = 0;
  for (; i + 4 <= rows; i += 4) mix_rows<4>(weights + i * source, values, source, size, contexts + i * size);
  for (; i < rows; ++i) mix_rows<1>(weights + i * source, values, source, size, contexts + i * size);
}

}  // namespace
