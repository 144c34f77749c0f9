// Gradients of queries, keys and vector from those of the scores: with s as in scores.hpp,
//
//   grad q_i = 4 v sum_j g_ij s_ij (1 - s_ij)
//   grad k_j = 4 v sum_i g_ij s_ij (1 - s_ij)
//   grad v   = sum_ij g_ij (1 - 2 s_ij)
//
// Every s is needed here, not only their sum, so none share a division.
#pragma once

#include "numbers.hpp"

namespace {

constexpr int ROWS = 4;           // queries for which a key is loaded once
constexpr Index STRETCH = 256;  // keys that stay in the first cache while all queries pass

/// s from its denominator. `wide` is for numbers of any size: `sum` gives q + k, which then takes an
/// exponential of its own where a power is out of range.
template <bool wide, typename Sum>
inline Vector share_from(Vector denominator, Sum sum) {
  Vector share = inverse(denominator);
  if constexpr (wide) {
    share = denominator <= LARGEST ? share : Vector{};
    share = denominator == denominator ? share : share_of(sum());
  }
  return share;
}

// ------------------------------------------------------------------- all queries with all keys

/// A few numbers, LANES at most, of a sentence's queries and keys.
struct Slice {
  const float *queries, *keys;    // at the first of these numbers; rows are `size` apart
  const float* grad_scores;       // target x source
  float* grad_queries;            // as the queries
  float *key_powers, *grad_keys;  // source x LANES
  Index source, size;
  int count;                      // of the numbers
  Vector highest_key;             // of the powers, over all keys
  Vector factor;                  // 4 v
  double shares[LANES];           // sum of g s
};

template <int rows, bool of_queries, bool of_keys, bool wide>
void gather(Slice& slice, Index row, Span span, const Vector (&powers)[rows]) {
  Vector grad_queries[rows] = {}, weighed_shares = {};
  const float* grad_scores = slice.grad_scores + row * slice.source;
  for (Index column = span.first; column < span.end; ++column) {
    Vector key = load(slice.key_powers + column * LANES), grad_key{}, weighed_sum{};
    for (int i = 0; i < rows; ++i) {
      Vector share = share_from<wide>(powers[i] * key + 1.0f, [&] {
        return load(slice.queries + (row + i) * slice.size, slice.count) +
               load(slice.keys + column * slice.size, slice.count);
      });
      Vector weighed = share * grad_scores[i * slice.source + column];
      Vector slope = weighed - weighed * share;
      grad_queries[i] += slope;
      grad_key += slope;
      weighed_sum += weighed;
    }
    if constexpr (of_keys) {
      float* place = slice.grad_keys + column * LANES;
      store(place, load(place) + grad_key);
      weighed_shares += weighed_sum;
    }
  }
  if constexpr (of_keys)
    for (int lane = 0; lane < LANES; ++lane) slice.shares[lane] += weighed_shares[lane];
  if constexpr (of_queries)
    for (int i = 0; i < rows; ++i) {
      float* place = slice.grad_queries + (row + i) * slice.size;
      store(place, load(place, slice.count) + slice.factor * grad_queries[i], slice.count);
    }
}

template <int rows, bool of_queries, bool of_keys>
void gather(Slice& slice, Index row, Span span) {
  Vector powers[rows], highest{};
  for (int i = 0; i < rows; ++i) {
    powers[i] = power(load(slice.queries + (row + i) * slice.size, slice.count));
    highest = larger(highest, powers[i]);
  }
  if (all(highest * slice.highest_key <= LARGEST))
    gather<rows, of_queries, of_keys, false>(slice, row, span, powers);
  else
    gather<rows, of_queries, of_keys, true>(slice, row, span, powers);
}

/// The keys' powers, and room for their gradients.
template <bool of_keys>
void take_keys(const Problem& problem, const Plan& plan, Slice& slice, Index sentence, Index place) {
  const std::uint8_t* seen = seen_of(plan, sentence);
  const Index offset = sentence * slice.source * slice.size + place;
  for (Index j = 0; j < slice.source; ++j) {
    Vector key{};  // what no query sees may be anything, and must not become NaN * 0
    if (!seen || seen[j])
      key = problem.powers ? load(problem.powers + offset + j * slice.size, slice.count)
                           : power(load(slice.keys + j * slice.size, slice.count));
    store(slice.key_powers + j * LANES, key);
    if constexpr (of_keys) store(slice.grad_keys + j * LANES, Vector{});
    slice.highest_key = larger(slice.highest_key, key);
  }
}

inline Span overlap(Span span, Index first, Index end) {
  return {span.first > first ? span.first : std::int32_t(first),
          span.end < end ? span.end : std::int32_t(end)};
}

template <bool of_queries, bool of_keys>
void differentiate_slice(const Problem& problem, const Plan& plan, const Gradients& gradients,
                         Index sentence, Index place, float* room) {
  const Index source = problem.source, size = problem.size, target = problem.target;
  const Index at_queries = sentence * target * size + place;
  const Index at_keys = sentence * source * size + place;
  const int count = lanes_from(place, size);
  Slice slice{};
  slice.queries = problem.queries + at_queries;
  slice.keys = problem.keys + at_keys;
  slice.grad_scores = gradients.scores + sentence * target * source;
  slice.grad_queries = of_queries ? gradients.queries + at_queries : nullptr;
  slice.key_powers = room;
  slice.grad_keys = room + source * LANES;
  slice.source = source;
  slice.size = size;
  slice.count = count;
  slice.factor = load(problem.vector + place, count) * 4.0f;
  take_keys<of_keys>(problem, plan, slice, sentence, place);
  if constexpr (of_queries)
    for (Index row = 0; row < target; ++row) store(slice.grad_queries + row * size, Vector{}, count);
  for (Index start = 0; start < source; start += STRETCH) {
    Index row = 0;
    for (; row + ROWS <= target; row += ROWS)
      gather<ROWS, of_queries, of_keys>(
          slice, row,
          overlap(span_of(problem, plan, sentence, row, ROWS), start, start + STRETCH));
    for (; row < target; ++row)
      gather<1, of_queries, of_keys>(
          slice, row, overlap(span_of(problem, plan, sentence, row), start, start + STRETCH));
  }
  if constexpr (of_keys) {
    for (Index j = 0; j < source; ++j)
      store(gradients.keys + at_keys + j * size, slice.factor * load(slice.grad_keys + j * LANES),
            count);
    for (int lane = 0; lane < count; ++lane)
      gradients.shares[sentence * size + place + lane] = slice.shares[lane];
  }
}

void differentiate_slice(const Problem& problem, const Plan& plan, const Gradients& gradients,
                         Index sentence, Index place, float* room) {
  if (gradients.queries && gradients.keys)
    differentiate_slice<true, true>(problem, plan, gradients, sentence, place, room);
  else if (gradients.queries)
    differentiate_slice<true, false>(problem, plan, gradients, sentence, place, room);
  else
    differentiate_slice<false, true>(problem, plan, gradients, sentence, place, room);
}

// ------------------------------------------------------------------- one query with all its keys

/// One query in full length.
struct Query {
  const float *numbers, *powers;
  float* grads;
  Index size;
};

/// Adds what `columns` keys give; `keys` and their powers are `size` apart.
template <int columns, bool wide>
inline void gather_keys(const Query& query, const float* keys, const float* key_powers,
                        const float* grad_scores) {
  for (Index d = 0; d < query.size; d += LANES) {
    const int count = lanes_from(d, query.size);
    auto take = [&](const float* from) { return count == LANES ? load(from) : load(from, count); };
    Vector power = take(query.powers + d), total = take(query.grads + d);
    for (int j = 0; j < columns; ++j) {
      Vector denominator = power * take(key_powers + j * query.size + d) + 1.0f;
      Vector share = share_from<wide>(denominator, [&] {
        return take(query.numbers + d) + take(keys + j * query.size + d);
      });
      Vector weighed = share * grad_scores[j];
      total += weighed - weighed * share;
    }
    store(query.grads + d, total, count);
  }
}

/// Over all that is seen; whether the result is sane.
template <bool wide>
bool gather_keys(const Query& query, const float* keys, const float* key_powers,
                 const std::uint8_t* seen, const float* grad_scores, Span span) {
  constexpr int columns = 4;
  std::memset(query.grads, 0, sizeof(float) * query.size);
  Index j = span.first;
  auto all_seen = [&] { return !seen || (seen[j] & seen[j + 1] & seen[j + 2] & seen[j + 3]); };
  while (j < span.end) {
    const float *key = keys + j * query.size, *powers = key_powers + j * query.size;
    if (j + columns <= span.end && all_seen()) {
      gather_keys<columns, wide>(query, key, powers, grad_scores + j);
      j += columns;
    } else {
      if (!seen || seen[j]) gather_keys<1, wide>(query, key, powers, grad_scores + j);
      j += 1;
    }
  }
  Vector total{};
  for (Index d = 0; d < query.size; d += LANES)
    total += load(query.grads + d, lanes_from(d, query.size)) * 0.0f;
  return sum<LANES>(total) == 0;
}

void differentiate_query(const Problem& problem, const Plan& plan, const Gradients& gradients,
                         Index sentence, Index row, float* room) {
  const Index size = problem.size, place = sentence * problem.target + row;
  const Query query{problem.queries + place * size, room, gradients.queries + place * size, size};
  powers(query.numbers, room, size);
  const float* keys = problem.keys + sentence * problem.source * size;
  const float* key_powers = problem.powers + sentence * problem.source * size;
  const float* grad_scores = gradients.scores + place * problem.source;
  const std::uint8_t* seen = seen_of(plan, sentence);
  const Span span = span_of(problem, plan, sentence, row);
  if (!gather_keys<false>(query, keys, key_powers, seen, grad_scores, span))
    gather_keys<true>(query, keys, key_powers, seen, grad_scores, span);
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
  const float whole = sum<LANES>(total);
  for (Index j = 0; j < count; ++j) grads[j] = (grads[j] - weights[j] * whole) * scale;
}

}  // namespace
