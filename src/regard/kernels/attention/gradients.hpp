// Gradients of queries, keys and vector from those of the scores: with s as in scores.hpp,
//
//   grad q_i = 4 v sum_j g_ij s_ij (1 - s_ij)
//   grad k_j = 4 v sum_i g_ij s_ij (1 - s_ij)
//   grad v   = sum_ij g_ij (1 - 2 s_ij)
//
// Each s is needed, not only their sum, so no division is shared.
#pragma once

#include "attention/powers.hpp"

namespace {

constexpr int ROWS = 4;         // queries for which a key is loaded once
constexpr Index STRETCH = 256;  // keys that stay in the first cache for all queries

/// Numbers of a slice: powers with products below LARGEST; powers; split powers, as numbers are out of
/// range; or the numbers themselves.
enum Range { NEAR, LARGE, FAR, DIRECT };

/// Contents of a slice: powers, mantissas or the numbers; and exponents for FAR.
struct Prepared {
  Vector numbers, exponents;
};

/// s of the numbers of a query and a key.
template <Range range>
inline Vector share_from(Prepared query, Prepared key) {
  if constexpr (range == DIRECT) return share_of(query.numbers + key.numbers);
  Vector power = query.numbers * key.numbers;
  if constexpr (range == LARGE) power = minimum(same(LARGEST), power);
  if constexpr (range == FAR) power = scaled(power, query.exponents + key.exponents, 60, 40);
  return inverse(power + 1.0f);
}

// ------------------------------------------------------------------- all queries with all keys

/// A few numbers, LANES at most, of all queries or all keys of a sentence.
struct Side {
  const float* numbers;  // of the first row; rows are `size` apart
  const float* powers;   // likewise, or null
  const std::uint8_t* seen;  // visible rows; null: all are
  Index rows;
  float offset;                          // of the exponents
  float *prepared, *exponents, *grads;   // rows x LANES
  Vector highest = Vector{};             // of the powers, over all rows
};

/// The same numbers of queries and keys.
struct Slice {
  Side queries, keys;
  const float* grad_scores;   // target x source
  Index source, size;
  int count;                  // of the numbers
  double sigmoids[LANES] = {};  // sum of g s
};

inline Span overlap(Span span, Index first, Index end) {
  return {span.first > first ? span.first : std::int32_t(first),
          span.end < end ? span.end : std::int32_t(end)};
}

template <Range range>
inline Prepared prepared(const Side& side, Index row) {
  return {load(side.prepared + row * LANES),
          range == FAR ? load(side.exponents + row * LANES) : Vector{}};
}

template <int rows, bool of_keys, Range range>
void gather(Slice& slice, Index row, Span span) {
  Prepared queries[rows];
  Vector grad_queries[rows] = {}, weighed_shares{};
  for (int i = 0; i < rows; ++i) queries[i] = prepared<range>(slice.queries, row + i);
  const float* grad_scores = slice.grad_scores + row * slice.source;
  for (Index column = span.first; column < span.end; ++column) {
    const Prepared key = prepared<range>(slice.keys, column);
    Vector grad_key{}, weighed_sum{};
    for (int i = 0; i < rows; ++i) {
      Vector share = share_from<range>(queries[i], key);
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
  for (int lane = 0; lane < LANES; ++lane) slice.sigmoids[lane] += weighed_shares[lane];
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

/// Largest absolute value of one side's numbers.
float largest_of(const Side& side, const Slice& slice) {
  Vector largest{};
  for (Index row = 0; row < side.rows; ++row) {
    if (side.seen && !side.seen[row]) continue;
    const Vector size = absolute(load(side.numbers + row * slice.size, slice.count));
    largest = maximum(size, largest);
  }
  float top = 0;
  for (int lane = 0; lane < LANES; ++lane) top = largest[lane] > top ? largest[lane] : top;
  return top;
}

/// Prepare one side's numbers for NEAR and LARGE, FAR or DIRECT, and a buffer for its gradients. Hidden
/// keys become 0.
template <Range range>
void prepare(Side& side, const Slice& slice) {
  for (Index row = 0; row < side.rows; ++row) {
    Vector numbers{}, exponents = same(side.offset);
    if (!side.seen || side.seen[row]) {
      numbers = load(side.numbers + row * slice.size, slice.count);
      if constexpr (range != DIRECT) {
        const Split split = split_power(numbers);
        if constexpr (range == FAR) {
          numbers = split.mantissa;
          exponents += split.exponent;
        } else {
          numbers = side.powers ? load(side.powers + row * slice.size, slice.count) : power(split);
          side.highest = larger(side.highest, numbers);
        }
      }
    }
    store(side.prepared + row * LANES, numbers);
    if constexpr (range == FAR) store(side.exponents + row * LANES, exponents);
    store(side.grads + row * LANES, Vector{});
  }
}

/// Write the gradients of one side, times 4 v, to the output.
void give(const Side& side, const Slice& slice, const float* vector, float* grads) {
  const Vector factor = load(vector, slice.count) * 4.0f;
  for (Index row = 0; row < side.rows; ++row)
    store(grads + row * slice.size, load(side.grads + row * LANES) * factor, slice.count);
}

void differentiate_slice(const Problem& problem, const Plan& plan, const Gradients& gradients,
                         Index sentence, Index place, float* room) {
  const Index source = problem.source, target = problem.target, size = problem.size;
  const Index at_queries = sentence * target * size + place;
  const Index at_keys = sentence * source * size + place;
  float *of_queries = room, *of_keys = room + 3 * target * LANES;
  Slice slice{{problem.queries + at_queries, nullptr, nullptr, target, 0, of_queries,
               of_queries + target * LANES, of_queries + 2 * target * LANES},
              {problem.keys + at_keys,
               problem.powers && !problem.is_split ? problem.powers + at_keys : nullptr,
               seen_of(plan, sentence), source, OFFSET, of_keys, of_keys + source * LANES,
               of_keys + 2 * source * LANES},
              gradients.scores + sentence * target * source,
              source,
              size,
              lanes_from(place, size)};
  const auto choose_range = [&](auto of_keys) {
    constexpr bool all_grads = decltype(of_keys)::value;
    const float query = largest_of(slice.queries, slice), key = largest_of(slice.keys, slice);
    const auto prepare_both = [&](auto range) {
      prepare<decltype(range)::value>(slice.queries, slice);
      prepare<decltype(range)::value>(slice.keys, slice);
    };
    if (query > HUGE_NUMBER || key > HUGE_NUMBER) {
      prepare_both(std::integral_constant<Range, DIRECT>{});
      return gather<all_grads, DIRECT>;
    }
    if (query > LIMIT || key > LIMIT) {
      prepare_both(std::integral_constant<Range, FAR>{});
      return gather<all_grads, FAR>;
    }
    prepare_both(std::integral_constant<Range, LARGE>{});
    const bool near = all(slice.queries.highest * slice.keys.highest <= LARGEST);
    return near ? gather<all_grads, NEAR> : gather<all_grads, LARGE>;
  };
  const auto gather_all =
      gradients.keys ? choose_range(std::true_type{}) : choose_range(std::false_type{});
  for (Index start = 0; start < source; start += STRETCH)
    gather_all(problem, plan, slice, sentence, start, start + STRETCH);
  const float* vector = problem.vector + place;
  if (gradients.queries)
    give(slice.queries, slice, vector, gradients.queries + at_queries);
  if (!gradients.keys) return;
  give(slice.keys, slice, vector, gradients.keys + at_keys);
  for (int lane = 0; lane < slice.count; ++lane)
    gradients.sigmoids[sentence * size + place + lane] = slice.sigmoids[lane];
}

// ------------------------------------------------------------------- one query with all its keys

/// One query: its numbers in the form of a Range, and exponents for FAR.
struct Query {
  const float *numbers, *exponents;
  float* grads;
  Index size;
};

/// Rows of keys in the form of the query's numbers: powers, split powers or the numbers themselves.
struct KeyRows {
  const float* numbers;
  Index size, step;  // of a row; stride to the next row

  KeyRows from(Index row) const { return {numbers + row * step, size, step}; }
};

/// Add the gradients of `columns` keys.
template <int columns, Range range>
inline void gather_keys(const Query& query, const KeyRows& keys, const float* grad_scores) {
  for (Index d = 0; d < query.size; d += LANES) {
    const int count = lanes_from(d, query.size);
    auto take = [&](const float* from) { return count == LANES ? load(from) : load(from, count); };
    auto take_both = [&](const float* numbers, const float* exponents) {
      return Prepared{take(numbers + d), range == FAR ? take(exponents + d) : Vector{}};
    };
    const Prepared asking = take_both(query.numbers, query.exponents);
    Vector total = take(query.grads + d);
    for (int j = 0; j < columns; ++j) {
      const float* key = keys.from(j).numbers;
      const Vector share = share_from<range>(asking, take_both(key, key + keys.size));
      Vector weighed = share * grad_scores[j];
      total += weighed - weighed * share;
    }
    store(query.grads + d, total, count);
  }
}

/// Iterate over all visible keys.
template <Range range>
void gather_keys(const Query& query, const KeyRows& keys, const std::uint8_t* seen,
                 const float* grad_scores, Span span) {
  constexpr int columns = 4;
  std::memset(query.grads, 0, sizeof(float) * query.size);
  Index j = span.first;
  auto all_seen = [&] { return !seen || (seen[j] & seen[j + 1] & seen[j + 2] & seen[j + 3]); };
  while (j < span.end) {
    if (j + columns <= span.end && all_seen()) {
      gather_keys<columns, range>(query, keys.from(j), grad_scores + j);
      j += columns;
    } else {
      if (!seen || seen[j]) gather_keys<1, range>(query, keys.from(j), grad_scores + j);
      j += 1;
    }
  }
}

void differentiate_query(const Problem& problem, const Plan& plan, const Gradients& gradients,
                         Index sentence, Index row, float* room) {
  const Index size = problem.size, place = sentence * problem.target + row;
  const Index numbers = problem.source * size;
  const float* queries = problem.queries + place * size;
  float *grads = gradients.queries + place * size, *splits = room + size;
  powers(queries, room, splits, OFFSET, size);
  const float* grad_scores = gradients.scores + place * problem.source;
  const std::uint8_t* seen = seen_of(plan, sentence);
  const Span span = span_of(problem, plan, sentence, row);
  const auto directly = [&] {
    const KeyRows keys{problem.keys + sentence * numbers, size, size};
    gather_keys<DIRECT>({queries, nullptr, grads, size}, keys, seen, grad_scores, span);
  };
  if (problem.is_split) {
    const KeyRows keys{problem.powers + 2 * sentence * numbers, size, 2 * size};
    gather_keys<FAR>({splits, splits + size, grads, size}, keys, seen, grad_scores, span);
    Vector checks{};
    over(size, [&](Index d, auto count) { checks += load(grads + d, count); });
    if (any_nan(checks)) directly();  // as a number is too large for split powers
  } else if (largest_of(queries, size) > LIMIT) {
    directly();
  } else {
    const KeyRows keys{problem.powers + sentence * numbers, size, size};
    gather_keys<LARGE>({room, nullptr, grads, size}, keys, seen, grad_scores, span);
  }
  for (Index d = 0; d < size; ++d) grads[d] *= 4 * problem.vector[d];
}

void through_softmax(const float* weights, float* grads, float scale, Index count) {
  Vector total{};
  for (Index j = 0; j < count; j += LANES) {
    const int present = lanes_from(j, count);
    Vector weight = load(weights + j, present), grad = load(grads + j, present);
    grad = weight == 0 ? Vector{} : weight * grad;  // a hidden gradient may be NaN
    store(grads + j, grad, present);
    total += grad;
  }
  const float whole = sum(total);
  for (Index j = 0; j < count; ++j) grads[j] = (grads[j] - weights[j] * whole) * scale;
}

}  // namespace
