// Products with packed weights in the layers of an encoder and of decoder steps.
#pragma once

#include "models/step.hpp"

/// All rows and panels of a product, on several threads if this is faster.
void multiply_packed(const Product&);

namespace {

constexpr Index WORTH_SHARING = 1 << 20;  // multiplications that take longer than waking a thread

/// y = activation(x W^T + b) + z, for a number of dense rows.
struct Multiply {
  Index rows, threads;

  void operator()(const Packed& weight, const float* x, float* y, Index activation = NONE,
                  const float* z = nullptr) const {
    multiply_packed({&weight, x, y, z, rows, weight.inner, activation, threads, {}});
  }
};

}  // namespace
