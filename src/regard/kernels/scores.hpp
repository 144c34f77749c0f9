// Scores, and the softmax over them.
//
//   score_ij = sum_d v_d tanh(q_id + k_jd) = sum_d v_d - 2 sum_d v_d s_ijd
//   v s      = 1 / (1 / v + E F / v),   E = e^{2q}, F = e^{2k}
//
// Fractions are added before they are divided, so that eight numbers share one division.
#pragma once

#include <type_traits>

#include "powers.hpp"

namespace {

constexpr int GROUP = 8;                       // numbers that share a division
constexpr float CLAMPED = 0x1p26f;             // EF from which tanh rounds to one
constexpr int TOGETHER = LANES == 16 ? 4 : 2;  // queries that a key is loaded once for
constexpr Index TILE_NUMBERS = 4096;           // of keys that stay in the first cache for a tile

/// Queries, one after the other, and what is taken of each number once: E and E / v.
struct Asking {
  const float *queries, *powers, *scaled;
  const float *vector, *inverse;
  Index size;

  Asking from(Index row) const {
    return {queries + row * size, powers + row * size, scaled + row * size, vector, inverse, size};
  }
};

/// (1 + EF) / v, whose absolute value is at most that for CLAMPED; NaN stays.
template <bool clamped>
inline Vector denominator(Vector whole, Vector v) {
  if constexpr (!clamped) return whole;
  const Vector most = v * CLAMPED, size = absolute(most);
  return absolute(whole) > size ? most : whole;
}

/// sum / product = 1 / D_1 + ... + 1 / D_count of numbers that are LANES apart, D = 1 / v + E / v F.
/// `clamped` takes EF as at most CLAMPED.
template <int count, bool clamped, int rows>
inline void add_fractions(const Asking& asking, const float* powers, Index d, Vector (&sums)[rows],
                          Vector (&products)[rows]) {
  if constexpr (count == 1) {
    const Vector key = load(powers + d), v = load(asking.inverse + d);
    for (int i = 0; i < rows; ++i) {
      products[i] = denominator<clamped>(load(asking.scaled + i * asking.size + d) * key + v, v);
      sums[i] = same(1);
    }
  } else {
    Vector left_sums[rows], left[rows], right_sums[rows], right[rows];
    add_fractions<count / 2, clamped>(asking, powers, d, left_sums, left);
    add_fractions<count / 2, clamped>(asking, powers, d + count / 2 * LANES, right_sums, right);
    for (int i = 0; i < rows; ++i) {
      sums[i] = count == 2 ? left[i] + right[i] : left_sums[i] * right[i] + right_sums[i] * left[i];
      products[i] = left[i] * right[i];
    }
  }
}

/// sum_d v_d s_d, in units of the plan and still over the lanes, of some queries with one key; not
/// finite where a product overflowed.
template <int largest, bool clamped, int rows>
inline void with_shared_divisions(const Asking& asking, const float* powers,
                                  Vector (&totals)[rows]) {
  Vector checks[rows] = {};
  for (int i = 0; i < rows; ++i) totals[i] = Vector{};
  Index d = 0;
  auto take = [&](auto group) {
    Vector sums[rows], products[rows];
    add_fractions<group, clamped>(asking, powers, d, sums, products);
    for (int i = 0; i < rows; ++i) {
      totals[i] += sums[i] / products[i];
      checks[i] += products[i] * 0.0f;
    }
    d += group * LANES;
    if constexpr (group == GROUP && !clamped) {  // where all overflow, the rest is in vain
      for (int i = 0; i < rows; ++i)
        if (!any_nan(checks[i])) return true;
      return false;
    }
    return true;
  };
  while (d + largest * LANES <= asking.size)
    if (!take(std::integral_constant<int, largest>{})) break;
  if (d + largest / 2 * LANES <= asking.size) take(std::integral_constant<int, largest / 2>{});
  while (d + LANES <= asking.size) take(std::integral_constant<int, 1>{});
  if (int rest = int(asking.size - d)) {
    const Vector key = load(powers + d, rest), v = load(asking.inverse + d, rest, 1);
    for (int i = 0; i < rows; ++i) {
      const Vector denominators =
          denominator<clamped>(load(asking.scaled + i * asking.size + d, rest) * key + v, v);
      totals[i] += first_lanes(rest) / denominators;
      checks[i] += denominators * 0.0f;
    }
  }
  for (int i = 0; i < rows; ++i) totals[i] += checks[i];
}

/// The same; with clamped powers for queries with which a product overflowed. Which way is taken
/// depends on each query and this key alone.
template <int rows>
inline void with_divisions(const Asking& asking, const float* powers, Vector (&totals)[rows]) {
  with_shared_divisions<GROUP, false>(asking, powers, totals);
  Vector checks{};
  for (int i = 0; i < rows; ++i) checks += totals[i] * 0.0f;
  if (!any_nan(checks)) return;
  Vector again[rows];
  with_shared_divisions<GROUP, true>(asking, powers, again);
  for (int i = 0; i < rows; ++i)
    if (any_nan(totals[i] * 0.0f)) totals[i] = again[i];
}

/// The same of one query, with a division for each number, and an exponential for numbers that cancel.
float with_care(const Asking& asking, const float* key, const float* powers) {
  Vector total{};
  over(asking.size, [&](Index d, auto count) {
    const Vector query_numbers = load(asking.queries + d, count), key_numbers = load(key + d, count);
    Vector denominators = load(asking.powers + d, count) * load(powers + d, count) + 1.0f;
    denominators = same(LARGEST) < denominators ? same(LARGEST) : denominators;
    Vector shares = inverse(denominators);
    const Vector apart = absolute(query_numbers - key_numbers);
    if (any_above(apart, APART))
      shares = apart > APART ? share_of(query_numbers + key_numbers) : shares;
    total += load(asking.vector + d, count) * shares;
  });
  return sum(total);
}

bool is_finite(float number) { return number * 0 == 0; }

/// Whether some numbers of a query and a key cancel.
bool some_cancel(const Asking& asking, const float* key) {
  Vector largest{};
  over(asking.size, [&](Index d, auto count) {
    const Vector apart = absolute(load(asking.queries + d, count) - load(key + d, count));
    largest = apart > largest ? apart : largest;
  });
  return any_above(largest, APART);
}

/// e^x for x <= 0; 0 where that is below 1e-38.
inline Vector exponential_below(Vector x) {
  Vector found = exponential(x > -87.0f ? x : Vector{});
  return x > -87.0f ? found : x == x ? Vector{} : x;
}

/// Softmax of scale * scores in their place, over those that the mask shows.
void softmax(float* scores, const std::uint8_t* mask, float scale, Span span) {
  constexpr float hidden = -__builtin_inff();
  for (Index j = span.first; j < span.end; ++j)
    scores[j] = !mask || mask[j] ? scores[j] * scale : hidden;
  Vector highest = same(hidden);
  for (Index j = span.first; j < span.end; j += LANES)
    highest = larger(highest, load(scores + j, lanes_from(j, span.end), hidden));
  float top = highest[0];
  for (int lane = 1; lane < LANES; ++lane)
    top = highest[lane] > top || highest[lane] != highest[lane] ? highest[lane] : top;
  if (top == hidden) top = 0;
  Vector total{};
  for (Index j = span.first; j < span.end; j += LANES) {
    const int count = lanes_from(j, span.end);
    Vector weights = exponential_below(load(scores + j, count, hidden) - top);
    store(scores + j, weights, count);
    total += weights;
  }
  const float whole = sum(total);
  if (whole == 0) return;
  for (Index j = span.first; j < span.end; ++j) scores[j] *= 1 / whole;
}

/// Scores of `rows` queries with the keys from `first` to before `end`.
template <int rows>
void score_rows(const Problem& problem, const Plan& plan, const Asking& asking, const float* keys,
                const float* key_powers, bool far, Index first, Index end, float* scores) {
  constexpr int columns = LANES / rows;
  const Index size = asking.size;
  for (Index start = first; start < end; start += columns) {
    const int count = end - start < columns ? int(end - start) : columns;
    Vector totals[LANES] = {};  // of each row one after the other
    for (int column = 0; plan.inverse && column < count; ++column) {
      Vector found[rows];
      with_divisions(asking, key_powers + (start + column) * size, found);
      for (int row = 0; row < rows; ++row) totals[row * columns + column] = found[row];
    }
    const Vector found = sums(totals) * (-2 * plan.unit);
    float pairs[LANES];
    store(pairs, found);
    if (!plan.inverse || !all(found * 0.0f == 0.0f))
      for (int pair = 0; pair < LANES; ++pair) {
        const Index j = start + pair % columns;
        if (j < end && !(plan.inverse && is_finite(pairs[pair])))
          pairs[pair] = -2 * with_care(asking.from(pair / columns), keys + j * size,
                                       key_powers + j * size);
      }
    for (int pair = 0; far && pair < LANES; ++pair) {
      const Index j = start + pair % columns;
      const Asking query = asking.from(pair / columns);
      if (j < end && some_cancel(query, keys + j * size))
        pairs[pair] = -2 * with_care(query, keys + j * size, key_powers + j * size);
    }
    for (int row = 0; row < rows; ++row)
      std::memcpy(scores + row * problem.source + start, pairs + row * columns,
                  sizeof(float) * count);
  }
}

/// Scores of so few queries that the keys are passed over once for all of them; which keys they see.
Span score_tile(const Problem& problem, const Plan& plan, Index sentence, Index first, Index rows,
                const float* key_powers, bool far, float* weights, float* room) {
  const Index size = problem.size, source = problem.source;
  const float* queries = problem.queries + (sentence * problem.target + first) * size;
  const float* keys = problem.keys + sentence * source * size;
  float* scaled = room + rows * size;
  far = powers(queries, room, rows * size) || far;
  for (Index row = 0; plan.inverse && row < rows; ++row)
    for (Index d = 0; d < size; ++d)
      scaled[row * size + d] = room[row * size + d] * plan.inverse[d];
  const Asking asking{queries, room, scaled, problem.vector, plan.inverse, size};
  const Span span = span_of(problem, plan, sentence, first, rows);
  for (Index row = 0; row < rows; ++row) {
    std::memset(weights + row * source, 0, sizeof(float) * span.first);
    std::memset(weights + row * source + span.end, 0, sizeof(float) * (source - span.end));
  }
  const Index columns = rows == 1 ? source : TILE_NUMBERS / (size ? size : 1) + 1;
  for (Index start = span.first; start < span.end; start += columns) {
    const Index end = start + columns < span.end ? start + columns : span.end;
    Index row = 0;
    for (; row + TOGETHER <= rows; row += TOGETHER)
      score_rows<TOGETHER>(problem, plan, asking.from(row), keys, key_powers, far, start, end,
                           weights + row * source);
    for (; row < rows; ++row)
      score_rows<1>(problem, plan, asking.from(row), keys, key_powers, far, start, end,
                    weights + row * source);
  }
  return span;
}

void weigh(const Problem& problem, const Plan& plan, Index sentence, Index first, Index end,
           const float* key_powers, bool far, bool wants_softmax, float scale, float* weights, float* room) {
  for (Index start = first; start < end; start += TILE_ROWS) {
    const Index rows = end - start < TILE_ROWS ? end - start : TILE_ROWS;
    float* tile = weights + (sentence * problem.target + start) * problem.source;
    const Span span =
        score_tile(problem, plan, sentence, start, rows, key_powers, far, tile, room);
    for (Index row = start; wants_softmax && row < start + rows; ++row) {
      const std::uint8_t* mask = problem.mask;
      if (mask) mask += sentence * problem.mask_batch + row * problem.mask_row;
      softmax(tile + (row - start) * problem.source, mask, scale, span);
    }
  }
}

}  // namespace
