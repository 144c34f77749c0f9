// A linear layer with a packed weight, and the same layer in double precision.
#pragma once

#include "checks.hpp"

/// y = W x + b.
struct PackedLinear {
  Index columns, inner;
  std::vector<float> weight, bias, panels;
  Packed packed;

  PackedLinear(Index columns, Index inner, bool has_bias, Random& random)
      : columns(columns), inner(inner), weight(drawn<float>(random, columns * inner, inner > 4 ? 0.3 : 1)),
        bias(drawn<float>(random, has_bias ? columns : 0)) {
    const Index lanes = regard_lanes(0), panel = 2 * lanes;
    panels = unknown<float>((columns + panel - 1) / panel * panel * inner);
    packed = {panels.data(), nullptr, has_bias ? bias.data() : nullptr, nullptr, nullptr, columns, inner, lanes,
              {bytes(panels), 0, bytes(bias), 0, 0}};
    must_run(regard_pack(weight.data(), bytes(weight), &packed));
  }
  PackedLinear(const PackedLinear&) = delete;

  std::vector<double> operator()(const std::vector<double>& x) const {
    std::vector<double> y(bias.begin(), bias.end());
    y.resize(columns);
    for (Index i = 0; i < columns; ++i)
      for (Index k = 0; k < inner; ++k) y[i] += double(weight[i * inner + k]) * x[k];
    return y;
  }
};

inline double activated(double x, Index activation) {
  if (activation == RELU) return x < 0 ? 0 : x;
  if (activation == TANH) return std::tanh(x);
  return activation == GELU ? x / 2 * (1 + std::erf(x / std::sqrt(2.0))) : x;
}

/// Refuse a weight whose sizes, bytes or lanes are wrong, in any call that reads it.
template <typename Run>
void must_refuse_wrong_weight(const Packed& right, const Run& run) {
  must_refuse_wrong(right, {&Packed::columns, &Packed::inner, &Packed::lanes}, run);
  Packed wrong = right;
  if (right.bytes[0] == 0) return;
  wrong.panels = nullptr;
  must_refuse(run(wrong));
}
