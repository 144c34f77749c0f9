// Attention by dot products of short sequences, and its gradient.
//
//   weights = softmax(scale Q K^T)     context = drop(weights) V
//
// A task is one head of a sentence. Its numbers stay in the cache from the first product to the last.
// `Number` is float or BFloat16 (`is_bfloat16`); all computation is in float.
#pragma once

#include "attention/dots_problem.hpp"
#include "random.hpp"
#include "vector.hpp"

namespace {

inline Index padded(Index count, Index lanes = LANES) { return (count + lanes - 1) / lanes * lanes; }

/// A matrix whose rows are whole vectors, so that no row has a shorter last vector.
struct Rows {
  float* numbers;
  Index row;
  float* at(Index i) const { return numbers + i * row; }
};

/// Copy rows of one head to dense floats, each padded with zeros.
template <typename Number>
void take(const Strided& from, Index batch, Index head, Index rows, Index size, Rows to) {
  const Number* start = static_cast<const Number*>(from.numbers) + batch * from.batch + head * from.head;
  for (Index i = 0; i < rows; ++i) {
    const Number* row = start + i * from.position;
    over(size, [&](Index place, auto count) { store(to.at(i) + place, load(row + place, count)); });
  }
}

template <typename Number>
void give(Rows from, const Strided& to, Index batch, Index head, Index rows, Index size) {
  Number* start = static_cast<Number*>(const_cast<void*>(to.numbers)) + batch * to.batch + head * to.head;
  for (Index i = 0; i < rows; ++i) {
    Number* row = start + i * to.position;
    over(size, [&](Index place, auto count) { store(row + place, load(from.at(i) + place), count); });
  }
}

/// Transpose, with each row padded with zeros.
void turn(Rows from, Index rows, Index columns, Rows to) {
  for (Index i = 0; i < to.row; i += LANES)
    for (Index j = 0; j < columns; j += LANES) {
      Vector block[LANES];
      for (int k = 0; k < LANES; ++k) block[k] = i + k < rows ? load(from.at(i + k) + j) : Vector{};
      transpose(block);
      for (int k = 0; k < lanes_from(j, columns); ++k) store(to.at(j + k) + i, block[k]);
    }
}

/// Left matrix of a product, which may be transposed: strides `row` down and `inner` across.
struct Left {
  const float* numbers;
  Index row, inner;
};

template <int rows>
inline void multiply_rows(Left left, Index inner, Rows right, Index columns, Rows to, Index first) {
  for (Index column = 0; column < columns; column += LANES) {
    Vector sums[rows] = {};
    for (Index k = 0; k < inner; ++k) {
      const Vector numbers = load(right.at(k) + column);
      for (int i = 0; i < rows; ++i)
        sums[i] += numbers * left.numbers[(first + i) * left.row + k * left.inner];
    }
    for (int i = 0; i < rows; ++i) store(to.at(first + i) + column, sums[i]);
  }
}

/// to = left right. The columns of `right` and `to` are whole vectors.
void multiply(Left left, Index rows, Index inner, Rows right, Index columns, Rows to) {
  constexpr int together = 8;
  Index i = 0;
  for (; i + together <= rows; i += together)
    multiply_rows<together>(left, inner, right, columns, to, i);
  if (i + 4 <= rows) multiply_rows<4>(left, inner, right, columns, to, i), i += 4;
  if (i + 2 <= rows) multiply_rows<2>(left, inner, right, columns, to, i), i += 2;
  if (i < rows) multiply_rows<1>(left, inner, right, columns, to, i);
}

/// Keys that a query may attend to.
struct Sight {
  const float* shown;  // 0 for hidden keys, in whole vectors; null: all are shown
  Index end;           // keys from here on are hidden

  /// All bits of the lanes of visible keys.
  Integers lanes(Index first) const {
    const Integers before_end = (Integers)(counted() + std::uint32_t(first)) < std::int32_t(end);
    return shown ? before_end & (load(shown + first) != 0) : before_end;
  }
};

/// Softmax of `scale` times a row of scores over the visible keys; zeros for hidden keys, and for a row
/// without visible keys. The `count` scores are whole vectors.
void normalise(float* scores, Sight sight, Index count, float scale) {
  const Vector hidden = same(-__builtin_inff());
  Vector highest = hidden, total{};
  for (Index j = 0; j < count; j += LANES) {
    const Vector score = sight.lanes(j) ? load(scores + j) * scale : hidden;
    store(scores + j, score);
    highest = larger(highest, score);
  }
  const float top = largest(highest);
  if (top == hidden[0]) return void(std::memset(scores, 0, sizeof(float) * count));
  for (Index j = 0; j < count; j += LANES) {
    const Vector power = power_below(load(scores + j) - top);
    store(scores + j, power);
    total += power;
  }
  const float factor = 1 / sum(total);
  for (Index j = 0; j < count; j += LANES) store(scores + j, load(scores + j) * factor);
}

/// Compute the weights of rows of products, from query `first` on. Store weights and scores if they are
/// needed. Room: a row.
void weigh(const Dots& dots, Index task, Index first, Index rows, Rows products, float* shown) {
  const Index batch = task / dots.heads;
  for (Index i = 0; i < rows; ++i) {
    const Index row = first + i, place = (task * dots.target + row) * dots.source;
    float* scores = products.at(i);
    if (dots.scores)
      for (Index j = 0; j < dots.source; ++j) dots.scores[place + j] = scores[j] * dots.scale;
    if (dots.mask && (i == 0 || dots.mask_row)) {
      const std::uint8_t* mask = dots.mask + batch * dots.mask_batch + row * dots.mask_row;
      for (Index j = 0; j < dots.source; ++j) shown[j] = mask[j];
    }
    const Index end = dots.causal && row + 1 < dots.source ? row + 1 : dots.source;
    normalise(scores, {dots.mask ? shown : nullptr, end}, products.row, dots.scale);
    if (dots.weights)
      over(dots.source, [&](Index j, auto count) { store(dots.weights + place + j, load(scores + j), count); });
  }
}

/// Factors of dropout for a row of weights: 0 or 1 / keep. Positions, and so the noise, are the same for
/// every instruction set.
inline Vector dropped(const Dots& dots, Index task, Index row, Index place) {
  const Index number = (task * dots.target + row) * padded(dots.source, MAX_LANES) + place;
  return kept_lanes(dots.seed, number, dots.keep);
}

struct Widths {
  Index size, value_size, source;  // whole vectors
  explicit Widths(const Dots& dots)
      : size(padded(dots.size)), value_size(padded(dots.value_size)), source(padded(dots.source)) {}
};

inline Rows room_for(float*& room, Index rows, Index row) {
  const Rows found{room, row};
  room += rows * row;
  return found;
}

template <typename Number>
void attend(const Dots& dots, Index task, float* room) {
  const Widths widths(dots);
  const Index batch = task / dots.heads, head = task % dots.heads;
  const Rows queries = room_for(room, dots.target, widths.size), keys = room_for(room, dots.source, widths.size);
  const Rows values = room_for(room, dots.source, widths.value_size);
  const Rows turned = room_for(room, dots.size, widths.source);
  const Rows weights = room_for(room, dots.target, widths.source);
  const Rows context = room_for(room, dots.target, widths.value_size);
  take<Number>(dots.queries, batch, head, dots.target, dots.size, queries);
  take<Number>(dots.keys, batch, head, dots.source, dots.size, keys);
  take<Number>(dots.values, batch, head, dots.source, dots.value_size, values);
  turn(keys, dots.source, dots.size, turned);
  multiply({queries.numbers, widths.size, 1}, dots.target, dots.size, turned, widths.source, weights);
  weigh(dots, task, 0, dots.target, weights, room);
  for (Index i = 0; dots.keep < 1 && i < dots.target; ++i)
    for (Index j = 0; j < widths.source; j += LANES)
      store(weights.at(i) + j, load(weights.at(i) + j) * dropped(dots, task, i, j));
  multiply({weights.numbers, widths.source, 1}, dots.target, dots.source, values, widths.value_size,
           context);
  give<Number>(context, dots.context, batch, head, dots.target, dots.value_size);
}

/// Context of a few queries from `first` on, as in a step of a decoder: keys and values are not
/// copied.
template <typename Number, int rows>
void attend_few(const Dots& dots, Index task, Index first, float* room) {
  const Index batch = task / dots.heads, head = task % dots.heads;
  const auto at = [&](const Strided& array, Index position) {
    return static_cast<Number*>(const_cast<void*>(array.numbers)) + batch * array.batch +
           head * array.head + position * array.position;
  };
  const Rows queries = room_for(room, rows, padded(dots.size));
  const Rows weights = room_for(room, rows, padded(dots.source));
  for (int i = 0; i < rows; ++i)
    over(dots.size, [&](Index place, auto count) {
      store(queries.at(i) + place, load(at(dots.queries, first + i) + place, count));
    });
  for (Index j = 0; j < dots.source; ++j) {
    const Number* key = at(dots.keys, j);
    Vector sums[rows] = {};
    over(dots.size, [&](Index place, auto count) {
      const Vector numbers = load(key + place, count);
      for (int i = 0; i < rows; ++i) sums[i] += numbers * load(queries.at(i) + place);
    });
    for (int i = 0; i < rows; ++i) weights.at(i)[j] = sum(sums[i]);
  }
  weigh(dots, task, first, rows, weights, room);
  over(dots.value_size, [&](Index place, auto count) {
    Vector sums[rows] = {};
    for (Index j = 0; j < dots.source; ++j) {
      const Vector numbers = load(at(dots.values, j) + place, count);
      for (int i = 0; i < rows; ++i) sums[i] += numbers * weights.at(i)[j];
    }
    for (int i = 0; i < rows; ++i) store(at(dots.context, first + i) + place, sums[i], count);
  });
}

constexpr Index FEW = 8;  // queries for which transposing the keys is not worth its time

template <typename Number>
void attend_each(const Dots& dots, Index task, float* room) {
  if (dots.target > FEW || dots.keep < 1) return attend<Number>(dots, task, room);
  Index i = 0;
  if (i + 8 <= dots.target) attend_few<Number, 8>(dots, task, i, room), i += 8;
  if (i + 4 <= dots.target) attend_few<Number, 4>(dots, task, i, room), i += 4;
  if (i + 2 <= dots.target) attend_few<Number, 2>(dots, task, i, room), i += 2;
  if (i < dots.target) attend_few<Number, 1>(dots, task, i, room);
}

void attend(const Dots& dots, Index task, float* room) {
  dots.is_bfloat16 ? attend_each<BFloat16>(dots, task, room) : attend_each<float>(dots, task, room);
}

template <typename Number>
void attend_back(const Dots& dots, Index task, float* room) {
  const Widths widths(dots);
  const Index batch = task / dots.heads, head = task % dots.heads;
  const Index target = dots.target, source = dots.source;
  const Rows queries = room_for(room, target, widths.size), keys = room_for(room, source, widths.size);
  const Rows values = room_for(room, source, widths.value_size);
  const Rows above = room_for(room, target, widths.value_size);
  const Rows turned = room_for(room, dots.value_size, widths.source);
  const Rows weights = room_for(room, target, widths.source), grads = room_for(room, target, widths.source);
  take<Number>(dots.queries, batch, head, target, dots.size, queries);
  take<Number>(dots.keys, batch, head, source, dots.size, keys);
  take<Number>(dots.values, batch, head, source, dots.value_size, values);
  take<Number>(dots.context, batch, head, target, dots.value_size, above);
  turn(values, source, dots.value_size, turned);
  multiply({above.numbers, widths.value_size, 1}, target, dots.value_size, turned, widths.source, grads);
  for (Index i = 0; i < target; ++i) {
    const float* kept = dots.weights + (task * target + i) * source;
    Vector total{};
    over(source, [&](Index j, auto count) {
      const Vector weight = load(kept + j, count);
      const Vector factor = dots.keep < 1 ? dropped(dots, task, i, j) : same(1);
      const Vector grad = load(grads.at(i) + j) * factor;
      store(weights.at(i) + j, weight * factor);
      store(grads.at(i) + j, grad);
      total += weight * grad;
    });
    const float whole = sum(total);
    over(source, [&](Index j, auto count) {
      const Vector weight = load(kept + j, count);
      store(grads.at(i) + j, weight * (load(grads.at(i) + j) - whole) * dots.scale);
    });
  }
  // results are written over values that are no longer needed
  const Rows of_values = values, of_queries = room_for(room, target, widths.size);
  multiply({weights.numbers, 1, widths.source}, source, target, above, widths.value_size, of_values);
  give<Number>(of_values, dots.grad_values, batch, head, source, dots.value_size);
  multiply({grads.numbers, widths.source, 1}, target, source, keys, widths.size, of_queries);
  give<Number>(of_queries, dots.grad_queries, batch, head, target, dots.size);
  multiply({grads.numbers, 1, widths.source}, source, target, queries, widths.size, keys);
  give<Number>(keys, dots.grad_keys, batch, head, source, dots.size);
}

void attend_back(const Dots& dots, Index task, float* room) {
  dots.is_bfloat16 ? attend_back<BFloat16>(dots, task, room) : attend_back<float>(dots, task, room);
}

}  // namespace
