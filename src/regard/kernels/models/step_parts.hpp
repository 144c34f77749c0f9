// Parts of a decoder's step besides products: layer norm, rotation, and attention of one hypothesis.
#pragma once

#include <cmath>

#include "models/step.hpp"
#include "vector.hpp"

namespace {

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias; y may be x.
void normalise(const Norm& norm, const float* x, float* y, Index size) {
  Vector total{}, squares{};
  over(size, [&](Index i, auto count) { total += load(x + i, count); });
  const float mean = sum(total) / size;
  over(size, [&](Index i, auto count) {
    const Vector rest = load(x + i, count, mean) - mean;
    squares += rest * rest;
  });
  const float factor = 1.0f / std::sqrt(sum(squares) / size + norm.epsilon);
  over(size, [&](Index i, auto count) {
    const Vector normed = (load(x + i, count) - mean) * factor;
    store(y + i, normed * load(norm.weight + i, count) + load(norm.bias + i, count), count);
  });
}

/// Rotate each pair of numbers of a head in place.
void rotate(float* vector, const float* cosines, const float* sines, Index part) {
  for (Index i = 0; i + 1 < part; i += 2) {
    const float even = vector[i], odd = vector[i + 1];
    vector[i] = even * cosines[i] - odd * sines[i];
    vector[i + 1] = odd * cosines[i + 1] + even * sines[i + 1];
  }
}

/// Position number `i` that a hypothesis may attend to, and whether it is visible.
inline Index position(const Heads& h, Index i) { return h.slots ? h.slots[i] : i; }
inline bool visible(const Heads& h, Index i) { return !h.mask || h.mask[i]; }

/// Scores of LANES positions from `first` on; hidden ones too if all are wanted.
inline Vector scores(const Heads& h, const float* query, Index offset, Index first, bool all) {
  Vector products[LANES];
  for (int lane = 0; lane < LANES; ++lane) {
    products[lane] = Vector{};
    if (first + lane >= h.count || !(all || visible(h, first + lane))) continue;
    const float* key = h.keys + position(h, first + lane) * h.step + offset;
    over(h.part, [&](Index i, auto count) {
      products[lane] += load(query + i, count) * load(key + i, count);
    });
  }
  return sums(products) * h.scale;
}

/// -inf for hidden positions and those after the last.
inline Vector masked(const Heads& h, Vector scores, Index first) {
  for (int lane = 0; lane < LANES; ++lane)
    if (first + lane >= h.count || !visible(h, first + lane)) scores[lane] = -__builtin_inff();
  return scores;
}

/// Write scores; 0 for those that are not finite and hidden.
inline void keep_scores(const Heads& h, Vector scores, Index first, float* to) {
  for (int lane = 0; lane < LANES && first + lane < h.count; ++lane) {
    const bool is_finite = scores[lane] - scores[lane] == 0;
    to[first + lane] = is_finite || visible(h, first + lane) ? scores[lane] : 0;
  }
}

/// All heads of one hypothesis. Weights: `count` numbers, in whole vectors.
void attend_to_positions(const Heads& h, float* weights) {
  for (Index head = 0; head < h.heads; ++head) {
    const Index offset = head * h.part;
    Vector highest = same(-__builtin_inff()), total{};
    for (Index first = 0; first < h.count; first += LANES) {
      const Vector products = scores(h, h.queries + offset, offset, first, h.scores);
      if (h.scores) keep_scores(h, products, first, h.scores + head * h.between);
      const Vector visible_scores = masked(h, products, first);
      highest = larger(highest, visible_scores);
      store(weights + first, visible_scores);
    }
    const float top = largest(highest);
    const bool has_keys = top != -__builtin_inff();
    for (Index first = 0; has_keys && first < h.count; first += LANES) {
      const Vector power = power_below(load(weights + first) - top);
      total += power;
      store(weights + first, power);
    }
    const float share = has_keys ? 1.0f / sum(total) : 0;
    over(h.part, [&](Index i, auto count) {
      Vector context{};
      for (Index j = 0; has_keys && j < h.count; ++j)
        if (visible(h, j))
          context += weights[j] * load(h.values + position(h, j) * h.step + offset + i, count);
      store(h.contexts + offset + i, context * share, count);
    });
    if (h.weights)
      for (Index j = 0; j < h.count; ++j)
        h.weights[head * h.between + j] = has_keys ? weights[j] * share : 0;
  }
}

}  // namespace
