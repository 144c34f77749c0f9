// What the layers of a Transformer's encoder and decoder share: products, layer norms and sums, of some rows
// of states. The reference is layers/residual.py and layers/feed_forward.py.
#pragma once

#include "kernels.hpp"
#include "layers/multiply.hpp"

namespace {

/// Some rows of states, and room of the same size. Every part writes only these rows.
class Sublayers {
 protected:
  float *const states_, *const normed_;
  const Index rows_, size_;
  const bool norm_first_;
  const Index activation_, threads_;
  const Multiply multiply_;

  Sublayers(float* states, float* normed, Index rows, Index size, Index norm_first, Index activation, Index threads)
      : states_(states), normed_(normed), rows_(rows), size_(size), norm_first_(norm_first != 0),
        activation_(activation), threads_(threads), multiply_{rows, threads} {}

  /// Input of a sublayer.
  const float* before(const Norm& norm) const {
    if (!norm_first_) return states_;
    normalise(norm, states_, normed_);
    return normed_;
  }

  /// Add the output of a sublayer to the states.
  void after(const Norm& norm, const Packed& weight, const float* inputs) const {
    multiply_(weight, inputs, states_, NONE, states_);
    if (!norm_first_) normalise(norm, states_, states_);
  }

  /// y = y + W2 activation(W1 norm(y)), or the norm of the sum. Room: rows x inner.
  void feed_forward(const Norm& norm, const Packed& inner, const Packed& outer, float* hidden) const {
    multiply_(inner, before(norm), hidden, activation_);
    after(norm, outer, hidden);
  }

  void normalise(const Norm& norm, const float* x, float* y) const {
    for (Index row = 0; row < rows_; ++row)
      in_use().normalise(norm, x + row * size_, y + row * size_, size_);
  }
};

}  // namespace
