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

/// Scores of LANES positions from `first` on. Hidden positions are included. Lanes after the last position
/// repeat its score.
inline Vector scores(const Heads& h, const float* query, Index offset, Index first) {
  const float* keys[LANES];
  Vector products[LANES];
  for (int lane = 0; lane < LANES; ++lane) {
    const Index place = first + lane < h.count ? first + lane : h.count - 1;
    keys[lane] = h.keys + position(h, place) * h.step + offset;
    products[lane] = Vector{};
  }
  over(h.part, [&](Index i, auto count) {
    const Vector numbers = load(query + i, count);
    for (int lane = 0; lane < LANES; ++lane) products[lane] += numbers * load(keys[lane] + i, count);
  });
  return sums(products) * h.scale;
}

/// Write `vectors` vectors of the context of a head, from place `i` on.
template <int vectors, typename Count>
inline void mix_values(const Heads& h, const float* weights, float share, Index i, Count count) {
  Vector context[vectors] = {};
  for (Index j = 0; j < h.count; ++j) {
    if (!visible(h, j)) continue;
    const float* value = h.values + position(h, j) * h.step + i;
    for (int k = 0; k < vectors; ++k) context[k] += weights[j] * load(value + k * LANES, count);
  }
  for (int k = 0; k < vectors; ++k) store(h.contexts + i + k * LANES, context[k] * share, count);
}

/// Whether a position of LANES from `first` on is visible.
inline bool any_visible(const Heads& h, Index first) {
  for (Index i = first; i < h.count && i < first + LANES; ++i)
    if (visible(h, i)) return true;
  return false;
}

/// -inf for hidden positions and those after the last.
inline Vector masked(const Heads& h, Vector scores, Index first) {
  if (!h.mask && first + LANES <= h.count) return scores;
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
      if (!h.scores && !any_visible(h, first)) {  // such as padding
        store(weights + first, same(-__builtin_inff()));
        continue;
      }
      const Vector products = scores(h, h.queries + offset, offset, first);
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
    if (!has_keys) {
      std::memset(h.contexts + offset, 0, sizeof(float) * h.part);
    } else {
      constexpr int together = 4;
      Index i = 0;
      for (; i + together * LANES <= h.part; i += together * LANES)
        mix_values<together>(h, weights, share, offset + i, std::integral_constant<int, LANES>{});
      over(h.part - i, [&](Index k, auto count) { mix_values<1>(h, weights, share, offset + i + k, count); });
    }
    if (h.weights)
      for (Index j = 0; j < h.count; ++j)
        h.weights[head * h.between + j] = has_keys ? weights[j] * share : 0;
  }
}

}  // namespace
