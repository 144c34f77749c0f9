// Scores, and the softmax over them.
//
//   score_ij = sum_d v_d tanh(q_id + k_jd) = sum_d v_d - 2 sum_d v_d s_ijd
//   v s      = 1 / (1 / v + E F / v),   E = e^{2q}, F = e^{2k}
//
// Fractions are added before the division, so that eight numbers share one division.
#pragma once

#include <type_traits>

#include "powers.hpp"

namespace {

constexpr int GROUP = 8;                       // numbers that share a division
constexpr float MODERATE = 36;                 // sum of numbers up to which a product of eight rarely overflows
constexpr float QUERY_LIMIT = 38;              // largest number for which e^{2q} / v is a normal number
constexpr int TOGETHER = LANES == 16 ? 4 : 2;  // queries for which a key is loaded once
constexpr Index TILE_NUMBERS = 4096;           // of keys that stay in the first cache for a tile

/// Query rows of a tile, `size` apart, and arrays computed once for each row: the powers E and E / v if
/// all numbers are in range, the split powers with mantissa / v if the keys have some, and the largest
/// absolute value.
struct Asking {
  const float *queries, *powers, *over_v, *splits, *largest, *vector, *inverse;
  Index size;

  Asking from(Index row) const {
    const Index place = row * size;
    return {queries + place, powers + place, over_v + place, splits + 2 * place,
            largest + row,   vector,         inverse,        size};
  }
};

/// Keys of a sentence, `size` apart, and arrays computed once for each key. `powers` is null if split
/// powers serve all pairs, `splits` without split powers, `largest` if one method serves all pairs.
struct Asked {
  const float *keys, *powers, *splits, *largest;
  Index size;

  Asked from(Index key) const {
    const Index place = key * size;
    return {keys + place, powers ? powers + place : nullptr, splits ? splits + 2 * place : nullptr,
            largest ? largest + key : nullptr, size};
  }
};

/// Methods for a pair.
enum Method {
  PRODUCT,  // of the powers; clamped if a product of eight denominators overflows
  CLAMPED_PRODUCT,
  SPLIT,  // powers: a number is out of range
  DIRECT_POWER  // of q + k: a number is too large for split powers, or the keys have none
};

inline Method method_of(float query, const Asked& key) {
  if (!key.powers) return query <= HUGE_NUMBER ? SPLIT : DIRECT_POWER;
  const float largest_key = key.largest ? key.largest[0] : 0;
  if (query + largest_key <= MODERATE) return PRODUCT;
  if (query <= QUERY_LIMIT && largest_key <= LIMIT) return CLAMPED_PRODUCT;
  return key.splits && query <= HUGE_NUMBER && largest_key <= HUGE_NUMBER ? SPLIT : DIRECT_POWER;
}

/// (1 + EF) / v of a row's numbers and a key's, from their powers. `clamped` takes EF as at most
/// CLAMPED, up to which four such numbers have a product; NaN stays.
template <bool clamped>
struct FromPowers {
  const Asking& asking;
  const Asked& key;

  template <typename Count>
  Vector operator()(Index row, Index d, Count count) const {
    const Vector v = load(asking.inverse + d, count, 1);
    const Vector whole =
        load(asking.over_v + row * asking.size + d, count) * load(key.powers + d, count) + v;
    if constexpr (!clamped) return whole;
    const Vector most = v * CLAMPED, size = absolute(most);
    return absolute(whole) > size ? most : whole;
  }
};

/// The same from split powers, for numbers up to HUGE_NUMBER; NaN for larger ones.
struct FromSplit {
  const Asking& asking;
  const Asked& key;

  template <typename Count>
  Vector operator()(Index row, Index d, Count count) const {
    const Index size = asking.size, place = 2 * row * size + d;
    const Vector v = load(asking.inverse + d, count, 1);
    return scaled(load(asking.splits + place, count) * load(key.splits + d, count),
                  load(asking.splits + place + size, count) + load(key.splits + size + d, count),
                  100, 26) +
           v;
  }
};

/// The same from q + k, for all numbers.
struct FromSums {
  const Asking& asking;
  const Asked& key;

  template <typename Count>
  Vector operator()(Index row, Index d, Count count) const {
    const Vector v = load(asking.inverse + d, count, 1);
    const Vector x = load(asking.queries + row * asking.size + d, count) + load(key.keys + d, count);
    return v * exponential(within(x + x, 18)) + (x == x ? v : x);
  }
};

/// sum / product = 1 / D_1 + ... + 1 / D_count of denominators that are LANES apart.
template <int count, int rows, typename Denominator>
inline void add_fractions(const Denominator& denominator, Index d, Vector (&sums)[rows],
                          Vector (&products)[rows]) {
  if constexpr (count == 1) {
    for (int i = 0; i < rows; ++i) {
      products[i] = denominator(i, d, std::integral_constant<int, LANES>{});
      sums[i] = same(1);
    }
  } else {
    Vector left_sums[rows], left[rows], right_sums[rows], right[rows];
    add_fractions<count / 2>(denominator, d, left_sums, left);
    add_fractions<count / 2>(denominator, d + count / 2 * LANES, right_sums, right);
    for (int i = 0; i < rows; ++i) {
      sums[i] = count == 2 ? left[i] + right[i] : left_sums[i] * right[i] + right_sums[i] * left[i];
      products[i] = left[i] * right[i];
    }
  }
}

/// sum_d v_d s_d, in units of the plan and still over the lanes, of some queries with one key; not
/// finite where a product overflowed. `hopes` ends early if the products of all lanes overflowed.
template <int largest, bool hopes, int rows, typename Denominator>
inline void with_shared_divisions(const Denominator& denominator, Index size,
                                  Vector (&totals)[rows]) {
  Vector checks[rows] = {};
  for (int i = 0; i < rows; ++i) totals[i] = Vector{};
  Index d = 0;
  auto take = [&](auto group) {
    Vector sums[rows], products[rows];
    add_fractions<group>(denominator, d, sums, products);
    for (int i = 0; i < rows; ++i) {
      totals[i] += sums[i] / products[i];
      checks[i] += products[i] * 0.0f;
    }
    d += group * LANES;
    if constexpr (group == GROUP && hopes) {
      for (int i = 0; i < rows; ++i)
        if (!any_nan(checks[i])) return true;
      return false;
    }
    return true;
  };
  while (d + largest * LANES <= size)
    if (!take(std::integral_constant<int, largest>{})) break;
  if (d + largest / 2 * LANES <= size) take(std::integral_constant<int, largest / 2>{});
  while (d + LANES <= size) take(std::integral_constant<int, 1>{});
  if (int rest = int(size - d)) {
    for (int i = 0; i < rows; ++i) {
      const Vector denominators = denominator(i, d, rest);
      totals[i] += first_lanes(rest) / denominators;
      checks[i] += denominators * 0.0f;
    }
  }
  for (int i = 0; i < rows; ++i) totals[i] += checks[i];
}

/// The same from the powers; clamped for queries with which a product overflowed. Which method is used
/// depends on each query and this key alone.
template <int rows>
inline void with_divisions(const Asking& asking, const Asked& key, Vector (&totals)[rows]) {
  with_shared_divisions<GROUP, true>(FromPowers<false>{asking, key}, asking.size, totals);
  Vector checks{};
  for (int i = 0; i < rows; ++i) checks += totals[i] * 0.0f;
  if (!any_nan(checks)) return;
  Vector again[rows];
  with_shared_divisions<GROUP / 2, false>(FromPowers<true>{asking, key}, asking.size, again);
  for (int i = 0; i < rows; ++i)
    if (any_nan(totals[i] * 0.0f)) totals[i] = again[i];
}

/// The same by the method of each pair.
template <int rows>
inline void with_any(const Asking& asking, const Asked& key, Vector (&totals)[rows]) {
  const Method method = method_of(asking.largest[0], key);
  bool is_shared = true;
  for (int i = 1; i < rows; ++i) is_shared &= method_of(asking.largest[i], key) == method;
  if (!is_shared) {
    for (int i = 0; i < rows; ++i) {
      Vector alone[1];
      with_any(asking.from(i), key, alone);
      totals[i] = alone[0];
    }
  } else if (method == PRODUCT) {
    with_divisions(asking, key, totals);
  } else if (method == CLAMPED_PRODUCT) {
    with_shared_divisions<GROUP / 2, false>(FromPowers<true>{asking, key}, asking.size, totals);
  } else if (method == SPLIT) {
    with_shared_divisions<GROUP / 2, false>(FromSplit{asking, key}, asking.size, totals);
  } else {
    with_shared_divisions<GROUP / 2, false>(FromSums{asking, key}, asking.size, totals);
  }
}

/// The same of one query, with a division for each number, and with an exponential if a number is out
/// of range.
float with_care(const Asking& asking, const Asked& key) {
  const bool far = method_of(asking.largest[0], key) >= SPLIT;
  Vector total{};
  over(asking.size, [&](Index d, auto count) {
    const Vector sigmoids =
        far ? share_of(load(asking.queries + d, count) + load(key.keys + d, count))
            : inverse(minimum(same(LARGEST), load(asking.powers + d, count) *
                                                     load(key.powers + d, count) + 1.0f));
    total += load(asking.vector + d, count) * sigmoids;
  });
  return sum(total);
}

bool is_finite(float number) { return number * 0 == 0; }

/// e^x for x <= 0; 0 if it is below 1e-38.
inline Vector exponential_below(Vector x) {
  Vector found = exponential(x > -87.0f ? x : Vector{});
  return x > -87.0f ? found : x == x ? Vector{} : x;
}

/// Softmax of scale * scores over the visible keys, written over the scores.
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
void score_rows(const Problem& problem, const Plan& plan, const Asking& asking, const Asked& keys,
                Index first, Index end, float* scores) {
  constexpr int columns = LANES / rows;
  for (Index start = first; start < end; start += columns) {
    const int count = end - start < columns ? int(end - start) : columns;
    Vector totals[LANES] = {};  // of each row in order
    for (int column = 0; plan.inverse && column < count; ++column) {
      Vector found[rows];
      if (keys.largest || !keys.powers)
        with_any(asking, keys.from(start + column), found);
      else
        with_divisions(asking, keys.from(start + column), found);
      for (int row = 0; row < rows; ++row) totals[row * columns + column] = found[row];
    }
    const Vector found = sums(totals) * (-2 * plan.unit);
    float pairs[LANES];
    store(pairs, found);
    if (!plan.inverse || !all(found * 0.0f == 0.0f))
      for (int pair = 0; pair < LANES; ++pair) {
        const Index j = start + pair % columns;
        if (j < end && !(plan.inverse && is_finite(pairs[pair])))
          pairs[pair] = -2 * with_care(asking.from(pair / columns), keys.from(j));
      }
    for (int row = 0; row < rows; ++row)
      std::memcpy(scores + row * problem.source + start, pairs + row * columns,
                  sizeof(float) * count);
  }
}

/// Scores of a few queries, with one pass over their visible keys.
Span score_tile(const Problem& problem, const Plan& plan, Index sentence, Index first, Index rows,
                const Asked& keys, float* weights, float* room) {
  const Index size = problem.size, source = problem.source, numbers = TILE_ROWS * size;
  const float* queries = problem.queries + (sentence * problem.target + first) * size;
  float *over_v = room + numbers, *splits = room + 2 * numbers, *largest = room + 4 * numbers;
  for (Index row = 0; row < rows; ++row) {
    const Index place = row * size;
    largest[row] = largest_of(queries + place, size);
    const bool far = largest[row] > QUERY_LIMIT;
    float *power = far ? nullptr : room + place, *split = keys.splits ? splits + 2 * place : nullptr;
    powers(queries + place, power, split, OFFSET, size);
    if (!plan.inverse) continue;
    over(size, [&](Index d, auto count) {
      const Vector v = load(plan.inverse + d, count);
      if (power) store(over_v + place + d, load(power + d, count) * v, count);
      if (split) store(split + d, load(split + d, count) * v, count);
    });
  }
  const Asking asking{queries, room, over_v, splits, largest, problem.vector, plan.inverse, size};
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
      score_rows<TOGETHER>(problem, plan, asking.from(row), keys, start, end,
                           weights + row * source);
    for (; row < rows; ++row)
      score_rows<1>(problem, plan, asking.from(row), keys, start, end, weights + row * source);
  }
  return span;
}

/// Arrays of a sentence's keys in `room`, computed once for all queries, of which `highest` is the
/// largest number. Powers from the caller that are not split mean that every key is in range; the keys'
/// largest numbers count as 0 then, so that a step of a loop does not read the keys for them.
Asked prepare_keys(const Problem& problem, Index sentence, float highest, float* room) {
  const Index source = problem.source, size = problem.size, numbers = source * size;
  Asked asked{problem.keys + sentence * numbers, nullptr, nullptr, nullptr, size};
  if (problem.powers && problem.is_split) {
    asked.splits = problem.powers + 2 * sentence * numbers;
    return asked;
  }
  if (problem.powers) {
    asked.powers = problem.powers + sentence * numbers;
    if (!(highest > MODERATE)) return asked;
    std::memset(room, 0, sizeof(float) * source);
    asked.largest = room;
    return asked;
  }
  float highest_key = 0;
  for (Index j = 0; j < source; ++j) {
    room[j] = largest_of(asked.keys + j * size, size);
    highest_key = room[j] > highest_key ? room[j] : highest_key;
  }
  if (highest + highest_key > MODERATE) asked.largest = room;
  float *own = room + source, *splits = own + numbers;
  const bool far = highest > QUERY_LIMIT || highest_key > LIMIT, alone = problem.target == 1;
  if (far && !alone) asked.splits = splits;
  for (Index j = 0; j < source; ++j) {  // one query takes the exponentials of pairs out of range itself
    if (alone && (highest > QUERY_LIMIT || room[j] > LIMIT)) continue;
    const Index place = j * size;
    powers(asked.keys + place, room[j] > LIMIT ? nullptr : own + place,
           asked.splits ? splits + 2 * place : nullptr, 0, size);
  }
  asked.powers = own;
  return asked;
}

void weigh(const Problem& problem, const Plan& plan, Index sentence, Index first, Index end,
           bool wants_softmax, float scale, float* weights, float* room) {
  const float* queries = problem.queries + (sentence * problem.target + first) * problem.size;
  const float highest = largest_of(queries, (end - first) * problem.size);
  const Asked keys = prepare_keys(problem, sentence, highest, room + tile_room(problem));
  for (Index start = first; start < end; start += TILE_ROWS) {
    const Index rows = end - start < TILE_ROWS ? end - start : TILE_ROWS;
    float* tile = weights + (sentence * problem.target + start) * problem.source;
    const Span span = score_tile(problem, plan, sentence, start, rows, keys, tile, room);
    for (Index row = start; wants_softmax && row < start + rows; ++row) {
      const std::uint8_t* mask = problem.mask;
      if (mask) mask += sentence * problem.mask_batch + row * problem.mask_row;
      softmax(tile + (row - start) * problem.source, mask, scale, span);
    }
  }
}

}  // namespace
