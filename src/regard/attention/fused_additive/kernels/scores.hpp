// Scores, and the softmax over them.
//
//   score_ij = sum_d v_d tanh(q_id + k_jd) = sum_d v_d - 2 sum_d v_d s_ijd
//   v s      = 1 / (1 / v + E F / v),   E = e^{2q}, F = e^{2k}
//
// Fractions are added before they are divided, so that eight numbers share one division.
#pragma once

#include <type_traits>

#include "numbers.hpp"

namespace {

constexpr int GROUP = 8;                         // numbers that share a division
constexpr int TOGETHER = LANES == 16 ? 4 : 2;    // queries for which a key is loaded once: registers
constexpr Index TILE_NUMBERS = 4096;             // of keys that stay in the first cache meanwhile

/// Queries, one after the other, and what is taken of each number once: E and E / v.
struct Asking {
  const float *queries, *powers, *scaled;
  const float *vector, *inverse;
  Index size;

  Asking from(Index row) const {
    return {queries + row * size, powers + row * size, scaled + row * size, vector, inverse, size};
  }
};

/// sum / product = 1 / D_1 + ... + 1 / D_count of numbers that are LANES apart, D = 1 / v + E / v F.
template <int count, int rows>
inline void add_fractions(const Asking& asking, const float* powers, Index d,
                          Vector (&sums)[rows], Vector (&products)[rows]) {
  if constexpr (count == 1) {
    Vector f = load(powers + d), v = load(asking.inverse + d);
    for (int row = 0; row < rows; ++row) {
      products[row] = load(asking.scaled + row * asking.size + d) * f + v;
      sums[row] = same(1);
    }
  } else {
    Vector left_sums[rows], left[rows], right_sums[rows], right[rows];
    add_fractions<count / 2>(asking, powers, d, left_sums, left);
    add_fractions<count / 2>(asking, powers, d + count / 2 * LANES, right_sums, right);
    for (int row = 0; row < rows; ++row) {
      sums[row] = count == 2 ? left[row] + right[row]
                             : left_sums[row] * right[row] + right_sums[row] * left[row];
      products[row] = left[row] * right[row];
    }
  }
}

/// sum_d v_d s_d, in units of the plan, of some queries with one key; NaN where a product overflowed.
template <int rows>
inline void with_shared_divisions(const Asking& asking, const float* powers, float (&found)[rows]) {
  Vector totals[rows] = {}, checks[rows] = {};
  Index d = 0;
  auto take = [&](auto group) {
    Vector sums[rows], products[rows];
    add_fractions<group>(asking, powers, d, sums, products);
    for (int row = 0; row < rows; ++row) {
      totals[row] += sums[row] / products[row];
      checks[row] += products[row] * 0.0f;
    }
    d += group * LANES;
  };
  while (d + GROUP * LANES <= asking.size) take(std::integral_constant<int, GROUP>{});
  if (d + GROUP / 2 * LANES <= asking.size) take(std::integral_constant<int, GROUP / 2>{});
  while (d + LANES <= asking.size) take(std::integral_constant<int, 1>{});
  if (int rest = int(asking.size - d)) {
    Vector f = load(powers + d, rest), v = load(asking.inverse + d, rest, 1);
    Vector one = first_lanes(rest);
    for (int row = 0; row < rows; ++row) {
      Vector denominators = load(asking.scaled + row * asking.size + d, rest) * f + v;
      totals[row] += one / denominators;
      checks[row] += denominators * 0.0f;
    }
  }
  for (int row = 0; row < rows; ++row) found[row] = sum<LANES>(totals[row] + checks[row]);
}

/// The same of one query, with a division for each number; NaN where E or F is out of range.
float with_single_divisions(const Asking& asking, const float* powers) {
  Vector total{};
  for (Index d = 0; d < asking.size; d += LANES) {
    int count = lanes_from(d, asking.size);
    Vector denominators = load(asking.powers + d, count) * load(powers + d, count) + 1.0f;
    total += load(asking.vector + d, count) / denominators;
  }
  return sum<LANES>(total);
}

/// The same for numbers of any size.
float with_single_exponentials(const Asking& asking, const float* key) {
  Vector total{};
  for (Index d = 0; d < asking.size; d += LANES) {
    int count = lanes_from(d, asking.size);
    Vector sums = load(asking.queries + d, count) + load(key + d, count);
    total += load(asking.vector + d, count) * share_of(sums);
  }
  return sum<LANES>(total);
}

bool is_finite(float number) { return number * 0 == 0; }

float score_with_care(const Asking& asking, const float* key, const float* powers) {
  float found = with_single_divisions(asking, powers);
  return is_finite(found) ? found : with_single_exponentials(asking, key);
}

/// Softmax of scale * scores in their place, over those that the mask shows.
void softmax(float* scores, const std::uint8_t* mask, float scale, Span span) {
  const float hidden = -__builtin_inff();
  if (mask)
    for (Index j = span.first; j < span.end; ++j) scores[j] = mask[j] ? scores[j] : hidden;
  Vector highest = same(hidden);
  for (Index j = span.first; j < span.end; j += LANES) {
    int count = lanes_from(j, span.end);
    Vector scaled = load(scores + j, count, hidden) * scale;
    if (scale == 0) scaled = load(scores + j, count, hidden) == hidden ? same(hidden) : same(0);
    store(scores + j, scaled, count);
    highest = larger(highest, scaled);
  }
  float top = highest[0];
  for (int lane = 1; lane < LANES; ++lane)
    top = highest[lane] > top || highest[lane] != highest[lane] ? highest[lane] : top;
  if (top == hidden) top = 0;
  Vector total{};
  for (Index j = span.first; j < span.end; j += LANES) {
    int count = lanes_from(j, span.end);
    Vector below = load(scores + j, count, hidden) - top;
    Vector weights = below < -87.0f ? same(0) : exponential(below < -87.0f ? same(0) : below);
    weights = below == below ? weights : below;
    store(scores + j, weights, count);
    total += weights;
  }
  float whole = sum<LANES>(total);
  if (whole == 0) return;
  for (Index j = span.first; j < span.end; ++j) scores[j] *= 1 / whole;
}

/// Scores of `rows` queries with the keys from `first` to before `end`.
template <int rows>
void score_rows(const Problem& problem, const Plan& plan, const Asking& asking, const float* keys,
                const float* key_powers, Index first, Index end, float* scores) {
  for (Index j = first; j < end; ++j) {
    float found[rows];
    if (plan.inverse)
      with_shared_divisions(asking, key_powers + j * asking.size, found);
    else
      for (int row = 0; row < rows; ++row) found[row] = NOT_A_NUMBER;
    for (int row = 0; row < rows; ++row) {
      float shares = found[row] * plan.unit;
      if (!is_finite(shares))
        shares = score_with_care(asking.from(row), keys + j * asking.size, key_powers + j * asking.size);
      scores[row * problem.source + j] = -2 * shares;
    }
  }
}

void weigh_tile(const Problem& problem, const Plan& plan, Index sentence, Index first, Index rows,
                const float* key_powers, bool wants_softmax, float scale, float* weights,
                float* room) {
  const Index size = problem.size, source = problem.source;
  const float* queries = problem.queries + (sentence * problem.target + first) * size;
  const float* keys = problem.keys + sentence * source * size;
  float* scaled = room + rows * size;
  powers(queries, room, rows * size);
  if (plan.inverse)
    for (Index row = 0; row < rows; ++row)
      for (Index d = 0; d < size; ++d)
        scaled[row * size + d] = room[row * size + d] * plan.inverse[d];
  const Asking asking{queries, room, scaled, problem.vector, plan.inverse, size};
  const Span span = span_of(problem, plan, sentence, first, rows);
  float* out = weights + (sentence * problem.target + first) * source;
  for (Index row = 0; row < rows; ++row) {
    std::memset(out + row * source, 0, sizeof(float) * span.first);
    std::memset(out + row * source + span.end, 0, sizeof(float) * (source - span.end));
  }
  const Index columns = TILE_NUMBERS / size > 1 ? TILE_NUMBERS / size : 1;
  for (Index start = span.first; start < span.end; start += columns) {
    const Index end = start + columns < span.end ? start + columns : span.end;
    Index row = 0;
    for (; row + TOGETHER <= rows; row += TOGETHER)
      score_rows<TOGETHER>(problem, plan, asking.from(row), keys, key_powers, start, end, out + row * source);
    for (; row < rows; ++row)
      score_rows<1>(problem, plan, asking.from(row), keys, key_powers, start, end, out + row * source);
  }
  if (!wants_softmax) return;
  for (Index row = 0; row < rows; ++row) {
    const std::uint8_t* mask = problem.mask;
    if (mask) mask += sentence * problem.mask_batch + (first + row) * problem.mask_row;
    softmax(out + row * source, mask, scale, span);
  }
}

void weigh(const Problem& problem, const Plan& plan, Index sentence, Index first, Index end,
           const float* key_powers, bool wants_softmax, float scale, float* weights, float* room) {
  for (Index row = first; row < end; row += TILE_ROWS)
    weigh_tile(problem, plan, sentence, row, end - row < TILE_ROWS ? end - row : TILE_ROWS,
               key_powers, wants_softmax, scale, weights, room);
}

}  // namespace
