// A layer norm, and the same in double precision.
#pragma once

#include "checks.hpp"

using Numbers = std::vector<double>;

struct LayerNorm {
  std::vector<float> weight, bias;
  float epsilon;

  LayerNorm(Index size, Random& random)
      : weight(drawn<float>(random, size)), bias(drawn<float>(random, size)), epsilon(0.01f) {}
  LayerNorm(const LayerNorm&) = delete;

  Norm structure() const { return {weight.data(), bias.data(), epsilon, {bytes(weight), bytes(bias)}}; }

  Numbers operator()(Numbers x) const {
    double mean = 0, variance = 0;
    for (double number : x) mean += number / x.size();
    for (double number : x) variance += (number - mean) * (number - mean) / x.size();
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = (x[i] - mean) / std::sqrt(variance + epsilon) * weight[i] + bias[i];
    return x;
  }
};

inline Numbers sum(Numbers x, const Numbers& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

/// Refuse a norm without its arrays, or with arrays that are too short, in any call that reads it.
template <typename Run>
void must_refuse_wrong_norm(Norm& norm, const Run& run) {
  const Norm saved = norm;
  for (const Norm& wrong : {Norm{}, Norm{saved.weight, nullptr, 0, {saved.bytes[0], 0}},
                            Norm{saved.weight, saved.bias, 0, {saved.bytes[0] - 1, saved.bytes[1]}},
                            Norm{saved.weight, saved.bias, 0, {saved.bytes[0], saved.bytes[1] - 1}}}) {
    norm = wrong;
    must_refuse(run());
  }
  norm = saved;
}
