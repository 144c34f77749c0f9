// Scores, and the softmax over them.
//
//   score_ij = sum_d v_d tanh(q_id + k_jd) = sum_d v_d - 2 sum_d v_d s_ijd
//   v s      = 1 / (1 / v + E F / v),   E = e^{2q}, F = e^{2k}
//
// Fractions are added before the division, so that GROUP numbers share one division.
#pragma once

#include <cmath>
#include <type_traits>

#include "attention/powers.hpp"

namespace {

constexpr int GROUP = LANES == 16 ? 8 : 4;     // numbers that share a division
constexpr int SMALL_GROUP = 4;                 // likewise, if they are clamped
constexpr float MODERATE = 36;                 // sum of numbers up to which a product rarely overflows
constexpr float QUERY_LIMIT = 38;              // largest number for which e^{2q} / v is a normal number
constexpr int TOGETHER = 4;                    // queries for which a key is loaded once
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
  bool is_safe;  // no product overflows

  Asked from(Index key) const {
    const Index place = key * size;
    return {keys + place, powers ? powers + place : nullptr, splits ? splits + 2 * place : nullptr,
            largest ? largest + key : nullptr, size, is_safe};
  }
};

/// Methods for a pair.
enum Method {
  PRODUCT,  // of the powers; clamped if a product of GROUP denominators overflows
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

/// (1 + EF) / v of rows' numbers and a key's, from their powers. `clamped` takes EF as at most
/// CLAMPED, up to which four such numbers have a product; NaN stays.
template <bool clamped>
struct FromPowers {
  const Asking& asking;
  const Asked& key;

  template <typename Count, int rows>
  void operator()(Index d, Count count, Vector (&denominators)[rows]) const {
    const Vector v = load(asking.inverse + d, count, 1), power = load(key.powers + d, count);
    for (int row = 0; row < rows; ++row) {
      const Vector whole = load(asking.over_v + row * asking.size + d, count) * power + v;
      denominators[row] = clamped ? at_most(whole, v * CLAMPED) : whole;
    }
  }

  static Vector at_most(Vector whole, Vector most) {
    return absolute(whole) > absolute(most) ? most : whole;
  }
};

/// The same from split powers, for numbers up to HUGE_NUMBER; NaN for larger ones.
struct FromSplit {
  const Asking& asking;
  const Asked& key;

  template <typename Count, int rows>
  void operator()(Index d, Count count, Vector (&denominators)[rows]) const {
    const Index size = asking.size;
    const Vector v = load(asking.inverse + d, count, 1);
    const Vector mantissa = load(key.splits + d, count), exponent = load(key.splits + size + d, count);
    for (int row = 0; row < rows; ++row) {
      const float* split = asking.splits + 2 * row * size + d;
      denominators[row] =
          scaled(load(split, count) * mantissa, load(split + size, count) + exponent, 100, 26) + v;
    }
  }
};

/// The same from q + k, for all numbers.
struct FromSums {
  const Asking& asking;
  const Asked& key;

  template <typename Count, int rows>
  void operator()(Index d, Count count, Vector (&denominators)[rows]) const {
    const Vector v = load(asking.inverse + d, count, 1), numbers = load(key.keys + d, count);
    for (int row = 0; row < rows; ++row) {
      const Vector x = load(asking.queries + row * asking.size + d, count) + numbers;
      denominators[row] = v * exponential(within(x + x, 18)) + (x == x ? v : x);
    }
  }
};

/// sum / product = 1 / D_1 + ... + 1 / D_group of denominators that are LANES apart.
template <int group, int rows, typename Denominators>
inline void add_fractions(const Denominators& denominators, Index d, Vector (&sums)[rows],
                          Vector (&products)[rows]) {
  constexpr std::integral_constant<int, LANES> whole{};
  denominators(d, whole, products);
  for (int place = 1; place < group; ++place) {
    Vector next[rows];
    denominators(d + place * LANES, whole, next);
    for (int i = 0; i < rows; ++i) {
      sums[i] = place == 1 ? products[i] + next[i] : sums[i] * next[i] + products[i];
      products[i] *= next[i];
    }
  }
}

/// sum_d v_d s_d, in units of the plan and still over the lanes, of some queries with one key. If
/// `checked`, it is not finite where a product overflowed, and ends early if one of every query did.
template <int group, bool checked, int rows, typename Denominators>
inline void with_shared_divisions(const Denominators& denominators, Index size,
                                  Vector (&totals)[rows]) {
  Vector checks[rows] = {};  // finite if all products are
  for (int i = 0; i < rows; ++i) totals[i] = Vector{};
  const auto is_hopeless = [&] {
    for (int i = 0; i < rows; ++i)
      if (!any_nan(checks[i] * 0.0f)) return false;
    return true;
  };
  Index d = 0;
  const auto take = [&](auto count) {
    Vector sums[rows], products[rows];
    add_fractions<count>(denominators, d, sums, products);
    for (int i = 0; i < rows; ++i) {
      totals[i] += sums[i] / products[i];
      if (checked) checks[i] += products[i];
    }
    d += count * LANES;
  };
  while (d + group * LANES <= size) {
    take(std::integral_constant<int, group>{});
    if (checked && is_hopeless()) break;
  }
  if (d + group / 2 * LANES <= size) take(std::integral_constant<int, group / 2>{});
  over(size - d, [&](Index rest, auto count) {
    Vector last[rows];
    denominators(d + rest, count, last);
    for (int i = 0; i < rows; ++i) {
      totals[i] += first_lanes(count) / last[i];
      if (checked) checks[i] += last[i];
    }
  });
  if (checked)
    for (int i = 0; i < rows; ++i) totals[i] += checks[i] * 0.0f;
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
  with_shared_divisions<SMALL_GROUP, true>(FromPowers<true>{asking, key}, asking.size, again);
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
    with_shared_divisions<SMALL_GROUP, true>(FromPowers<true>{asking, key}, asking.size, totals);
  } else if (method == SPLIT) {
    with_shared_divisions<SMALL_GROUP, true>(FromSplit{asking, key}, asking.size, totals);
  } else {
    with_shared_divisions<SMALL_GROUP, true>(FromSums{asking, key}, asking.size, totals);
  }
}

/// The same of one query, with a division for each number, and with an exponential if a number is out
/// of range.
__attribute__((noinline)) float with_care(const Asking& asking, const Asked& key) {
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

/// Softmax of scale * scores over the visible keys, written over the scores.
void softmax(float* scores, const std::uint8_t* mask, float scale, Span span) {
  constexpr float hidden = -__builtin_inff();
  for (Index j = span.first; j < span.end; ++j)
    scores[j] = !mask || mask[j] ? scores[j] * scale : hidden;
  Vector highest = same(hidden);
  for (Index j = span.first; j < span.end; j += LANES)
    highest = larger(highest, load(scores + j, lanes_from(j, span.end), hidden));
  const float found = largest(highest), top = found == hidden ? 0 : found;
  Vector total{};
  for (Index j = span.first; j < span.end; j += LANES) {
    const int count = lanes_from(j, span.end);
    Vector weights = power_below(load(scores + j, count, hidden) - top);
    store(scores + j, weights, count);
    total += weights;
  }
  const float whole = sum(total);
  if (whole == 0) return;
  for (Index j = span.first; j < span.end; ++j) scores[j] *= 1 / whole;
}

/// Totals of `rows` queries with a key.
template <bool is_safe, int rows>
inline void add_up(const Asking& asking, const Asked& keys, Index j, Vector (&totals)[rows]) {
  const Asked key = keys.from(j);
  if constexpr (is_safe)
    with_shared_divisions<GROUP, false>(FromPowers<false>{asking, key}, asking.size, totals);
  else if (keys.largest || !keys.powers)
    with_any(asking, key, totals);
  else
    with_divisions(asking, key, totals);
}

/// Compute again the scores in `pairs` that are not finite, of LANES / columns queries with `count` keys.
__attribute__((noinline)) void repair(const Plan& plan, const Asking& asking, const Asked& keys,
                                      int columns, int count, float* pairs) {
  for (int pair = 0; pair < LANES; ++pair)
    if (pair % columns < count && !(plan.inverse && is_finite(pairs[pair])))
      pairs[pair] = -2 * with_care(asking.from(pair / columns), keys.from(pair % columns));
}

/// Scores of `rows` queries with the keys from `first` to before `end`.
template <int rows, bool is_safe>
void score_rows(const Problem& problem, const Plan& plan, const Asking& asking, const Asked& keys,
                Index first, Index end, float* scores) {
  constexpr int columns = LANES / rows;
  for (Index start = first; start < end; start += columns) {
    const int count = end - start < columns ? int(end - start) : columns;
    Vector totals[LANES];  // of each row in order
    for (int column = 0; column < columns; ++column) {
      Vector found[rows];
      if (column < count && plan.inverse)
        add_up<is_safe>(asking, keys, start + column, found);
      else
        for (int row = 0; row < rows; ++row) found[row] = Vector{};
      for (int row = 0; row < rows; ++row) totals[row * columns + column] = found[row];
    }
    const Vector found = sums(totals) * (-2 * plan.unit);
    float pairs[LANES];
    store(pairs, found);
    if (!plan.inverse || any_nan(found * 0.0f))
      repair(plan, asking, keys.from(start), columns, count, pairs);
    for (int row = 0; row < rows; ++row) {
      float *to = scores + row * problem.source + start, *from = pairs + row * columns;
      if (count == columns)
        std::memcpy(to, from, sizeof(float) * columns);
      else
        std::memcpy(to, from, sizeof(float) * count);
    }
  }
}

/// Scores of `rows` queries, some at a time.
template <bool is_safe>
void score_all(const Problem& problem, const Plan& plan, const Asking& asking, const Asked& keys,
               Index rows, Index first, Index end, float* scores) {
  Index row = 0;
  for (; row + TOGETHER <= rows; row += TOGETHER)
    score_rows<TOGETHER, is_safe>(problem, plan, asking.from(row), keys, first, end,
                                  scores + row * problem.source);
  for (; row + 2 <= rows; row += 2)
    score_rows<2, is_safe>(problem, plan, asking.from(row), keys, first, end,
                           scores + row * problem.source);
  for (; row < rows; ++row)
    score_rows<1, is_safe>(problem, plan, asking.from(row), keys, first, end,
                           scores + row * problem.source);
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
    const auto score = keys.is_safe ? score_all<true> : score_all<false>;
    score(problem, plan, asking, keys, rows, start, end, weights);
  }
  return span;
}

/// Sum of a query's and a key's largest numbers up to which no product of GROUP denominators overflows.
/// A denominator is at most largest (1 + e^{2 sum}).
float safe_sum(const Plan& plan) {
  const float bits = 126.0f / GROUP - 1 - std::log2(plan.largest);
  return bits * 0.34657359f;  // ln(2) / 2
}

/// Arrays of a sentence's keys in `room`, computed once for all queries, of which `highest` is the
/// largest number. Powers from the caller that are not split mean that every key is in range; the keys'
/// largest numbers count as 0 then, so that a step of a loop does not read the keys for them.
Asked prepare_keys(const Problem& problem, const Plan& plan, Index sentence, float highest,
                   float* room) {
  const Index source = problem.source, size = problem.size, numbers = source * size;
  Asked asked{problem.keys + sentence * numbers, nullptr, nullptr, nullptr, size, false};
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
  asked.is_safe = highest + highest_key <= safe_sum(plan);
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
  const Asked keys = prepare_keys(problem, plan, sentence, highest, room + tile_room(problem));
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
