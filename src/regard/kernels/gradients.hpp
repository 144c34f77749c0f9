// Gradients of queries, keys and vector from those of the scores: with s as in scores.hpp,
//
//   grad q_i = 4 v sum_j g_ij s_ij (1 - s_ij)
//   grad k_j = 4 v sum_i g_ij s_ij (1 - s_ij)
//   grad v   = sum_ij g_ij (1 - 2 s_ij)
//
// Every s is needed here, not only their sum, so none share a division.
#pragma once

#include "powers.hpp"

namespace {

constexpr int ROWS = 4;         // queries for which a key is loaded once
constexpr Index STRETCH = 256;  // keys that stay in the first cache while all queries pass

enum Range { NEAR, LARGE, FAR };  // powers below LARGEST; any powers; numbers out of their range as well

/// s of numbers whose powers are given; `query()` and `key()` give the numbers themselves, which are
/// looked at where some are out of range.
template <Range range, typename Query, typename Key>
inline Vector share_from(Vector query_power, Vector key_power, Query query, Key key) {
  Vector denominator = query_power * key_power + 1.0f;
  if constexpr (range != NEAR) denominator = same(LARGEST) < denominator ? same(LARGEST) : denominator;
  Vector share = inverse(denominator);
  if constexpr (range == FAR) {
    const Vector q = query(), k = key();
    const Vector apart = absolute(q - k);
    if (any_above(apart, APART))  // the power of a hidden key is 0
      share = ((apart > APART) & (key_power > 0)) ? share_of(q + k) : share;
  }
  return share;
}

// ------------------------------------------------------------------- all queries with all keys

/// A few numbers, LANES at most, of all queries or all keys of a sentence.
struct Side {
  const float* numbers;       // of the first row; rows are `size` apart
  float *powers, *grads;      // rows x LANES
  Vector highest = Vector{};  // of the powers, over all rows
  Vector largest = Vector{};  // of the numbers
};

/// The same numbers of both.
struct Slice {
  Side queries, keys;
  const float* grad_scores;   // target x source
  Index source, size;
  int count;                  // of the numbers
  double shares[LANES] = {};  // sum of g s
};

inline Span overlap(Span span, Index first, Index end) {
  return {span.first > first ? span.first : std::int32_t(first),
          span.end < end ? span.end : std::int32_t(end)};
}

template <int rows, bool of_keys, Range range>
void gather(Slice& slice, Index row, Span span) {
  Vector powers[rows], grad_queries[rows] = {}, weighed_shares{};
  for (int i = 0; i < rows; ++i) powers[i] = load(slice.queries.powers + (row + i) * LANES);
  const float* grad_scores = slice.grad_scores + row * slice.source;
  for (Index column = span.first; column < span.end; ++column) {
    Vector key = load(slice.keys.powers + column * LANES), grad_key{}, weighed_sum{};
    for (int i = 0; i < rows; ++i) {
      Vector share = share_from<range>(
          powers[i], key,
          [&] { return load(slice.queries.numbers + (row + i) * slice.size, slice.count); },
          [&] { return load(slice.keys.numbers + column * slice.size, slice.count); });
      Vector weighed = share * grad_scores[i * slice.source + column];
      Vector slope = weighed - weighed * share;
      grad_queries[i] += slope;
      grad_key += slope;
      weighed_sum += weighed;
    }
    if constexpr (of_keys) {
      float* place = slice.keys.grads + column * LANES;
      store(place, load(place) + grad_key);
      weighed_shares += weighed_sum;
    }
  }
  for (int lane = 0; lane < LANES; ++lane) slice.shares[lane] += weighed_shares[lane];
  for (int i = 0; i < rows; ++i) {
    float* place = slice.queries.grads + (row + i) * LANES;
    store(place, load(place) + grad_queries[i]);
  }
}

/// All queries with the keys from `first` to before `end`.
template <bool of_keys, Range range>
void gather(const Problem& problem, const Plan& plan, Slice& slice, Index sentence, Index first,
            Index end) {
  Index row = 0;
  for (; row + ROWS <= problem.target; row += ROWS)
    gather<ROWS, of_keys, range>(slice, row,
                                overlap(span_of(problem, plan, sentence, row, ROWS), first, end));
  for (; row < problem.target; ++row)
    gather<1, of_keys, range>(slice, row,
                             overlap(span_of(problem, plan, sentence, row), first, end));
}

/// The powers of one side's numbers, unless they are there, and room for its gradients.
void take(Side& side, const Slice& slice, Index rows, const float* powers,
          const std::uint8_t* seen) {
  for (Index row = 0; row < rows; ++row) {
    Vector found{};  // what no query sees may be anything, and must not become NaN * 0
    if (!seen || seen[row]) {
      const Vector numbers = load(side.numbers + row * slice.size, slice.count);
      found = powers ? load(powers + row * slice.size, slice.count) : power(numbers);
      const Vector size = absolute(numbers);
      side.largest = size > side.largest ? size : side.largest;
    }
    store(side.powers + row * LANES, found);
    store(side.grads + row * LANES, Vector{});
    side.highest = larger(side.highest, found);
  }
}

/// The gradients of one side, times 4 v, to their place among all.
void give(const Side& side, const Slice& slice, Index rows, const float* vector, float* grads) {
  const Vector factor = load(vector, slice.count) * 4.0f;
  for (Index row = 0; row < rows; ++row)
    store(grads + row * slice.size, load(side.grads + row * LANES) * factor, slice.count);
}

void differentiate_slice(const Problem& problem, const Plan& plan, const Gradients& gradients,
                         Index sentence, Index place, float* room) {
  const Index source = problem.source, target = problem.target, size = problem.size;
  const Index at_queries = sentence * target * size + place;
  const Index at_keys = sentence * source * size + place;
  Slice slice{{problem.queries + at_queries, room, room + target * LANES},
              {problem.keys + at_keys, room + 2 * target * LANES,
               room + (2 * target + source) * LANES},
              gradients.scores + sentence * target * source,
              source,
              size,
              lanes_from(place, size)};
  take(slice.queries, slice, target, nullptr, nullptr);
  take(slice.keys, slice, source, problem.powers ? problem.powers + at_keys : nullptr,
       seen_of(plan, sentence));
  const bool near = all(slice.queries.highest * slice.keys.highest <= LARGEST);
  const bool far = any_above(slice.queries.largest, LIMIT) || any_above(slice.keys.largest, LIMIT);
  const auto choose_range = [&](auto of_keys) {
    constexpr bool all = decltype(of_keys)::value;
    return far ? gather<all, FAR> : near ? gather<all, NEAR> : gather<all, LARGE>;
  };
  const auto gather_all =
      gradients.keys ? choose_range(std::true_type{}) : choose_range(std::false_type{});
  for (Index start = 0; start < source; start += STRETCH)
    gather_all(problem, plan, slice, sentence, start, start + STRETCH);
  const float* vector = problem.vector + place;
  if (gradients.queries)
    give(slice.queries, slice, target, vector, gradients.queries + at_queries);
  if (!gradients.keys) return;
  give(slice.keys, slice, source, vector, gradients.keys + at_keys);
  for (int lane = 0; lane < slice.count; ++lane)
    gradients.shares[sentence * size + place + lane] = slice.shares[lane];
}

// ------------------------------------------------------------------- one query with all its keys

/// One query in full length.
struct Query {
  const float *numbers, *powers;
  float* grads;
  Index size;
};

/// Adds what `columns` keys give; `keys` and their powers are `size` apart.
template <int columns, Range range>
inline void gather_keys(const Query& query, const float* keys, const float* key_powers,
                        const float* grad_scores) {
  for (Index d = 0; d < query.size; d += LANES) {
    const int count = lanes_from(d, query.size);
    auto take = [&](const float* from) { return count == LANES ? load(from) : load(from, count); };
    Vector power = take(query.powers + d), total = take(query.grads + d);
    for (int j = 0; j < columns; ++j) {
      Vector share = share_from<range>(
          power, take(key_powers + j * query.size + d), [&] { return take(query.numbers + d); },
          [&] { return take(keys + j * query.size + d); });
      Vector weighed = share * grad_scores[j];
      total += weighed - weighed * share;
    }
    store(query.grads + d, total, count);
  }
}

/// Over all that is seen.
template <Range range>
void gather_keys(const Query& query, const float* keys, const float* key_powers,
                 const std::uint8_t* seen, const float* grad_scores, Span span) {
  constexpr int columns = 4;
  std::memset(query.grads, 0, sizeof(float) * query.size);
  Index j = span.first;
  auto all_seen = [&] { return !seen || (seen[j] & seen[j + 1] & seen[j + 2] & seen[j + 3]); };
  while (j < span.end) {
    const float *key = keys + j * query.size, *powers = key_powers + j * query.size;
    if (j + columns <= span.end && all_seen()) {
      gather_keys<columns, range>(query, key, powers, grad_scores + j);
      j += columns;
    } else {
      if (!seen || seen[j]) gather_keys<1, range>(query, key, powers, grad_scores + j);
      j += 1;
    }
  }
}

void differentiate_query(const Problem& problem, const Plan& plan, const Gradients& gradients,
                         Index sentence, Index row, float* room) {
  const Index size = problem.size, place = sentence * problem.target + row;
  const Query query{problem.queries + place * size, room, gradients.queries + place * size, size};
  const bool far = powers(query.numbers, room, size);
  const float* keys = problem.keys + sentence * problem.source * size;
  const float* key_powers = problem.powers + sentence * problem.source * size;
  const float* grad_scores = gradients.scores + place * problem.source;
  const std::uint8_t* seen = seen_of(plan, sentence);
  const Span span = span_of(problem, plan, sentence, row);
  if (far)
    gather_keys<FAR>(query, keys, key_powers, seen, grad_scores, span);
  else
    gather_keys<LARGE>(query, keys, key_powers, seen, grad_scores, span);
  for (Index d = 0; d < size; ++d) query.grads[d] *= 4 * problem.vector[d];
}

void through_softmax(const float* weights, float* grads, float scale, Index count) {
  Vector total{};
  for (Index j = 0; j < count; j += LANES) {
    const int present = lanes_from(j, count);
    Vector weight = load(weights + j, present), grad = load(grads + j, present);
    grad = weight == 0 ? Vector{} : weight * grad;  // what is hidden may be NaN
    store(grads + j, grad, present);
    total += grad;
  }
  const float whole = sum(total);
  for (Index j = 0; j < count; ++j) grads[j] = (grads[j] - weights[j] * whole) * scale;
}

}  // namespace
