// Checks that the arrays of a call are as large as its sizes. Every function of the interface checks
// this before a kernel runs and returns WRONG_SIZES otherwise, as kernels do not check sizes.
#pragma once

#include <initializer_list>

#include "kernels.hpp"

constexpr int WRONG_SIZES = 2;

namespace {

/// An axis: its size and its stride.
struct Axis {
  Index size, step;
};

/// Bytes from the first number of an array to the end of the last; -1 for impossible sizes.
inline Index reach(Index item, std::initializer_list<Axis> axes) {
  Index last = 0, along;
  bool possible = true, empty = false;
  for (const Axis& axis : axes) {
    possible = possible && axis.size >= 0 && axis.step >= 0;
    empty = empty || axis.size == 0;
    if (possible && !empty)
      possible = !__builtin_mul_overflow(axis.size - 1, axis.step, &along) &&
                 !__builtin_add_overflow(last, along, &last);
  }
  if (!possible) return -1;
  if (empty) return 0;
  return __builtin_add_overflow(last, Index(1), &last) || __builtin_mul_overflow(last, item, &last)
             ? -1
             : last;
}

/// Bytes of a dense array; -1 for impossible sizes.
inline Index dense(Index item, std::initializer_list<Index> sizes) {
  Index count = 1;
  bool possible = true, empty = false;
  for (Index size : sizes) {
    possible = possible && size >= 0;
    empty = empty || size == 0;
    if (possible && !empty) possible = !__builtin_mul_overflow(count, size, &count);
  }
  if (!possible || __builtin_mul_overflow(count, item, &count)) return -1;
  return empty ? 0 : count;
}

inline bool holds(const void* array, Index bytes, Index needed) {
  return needed == 0 || (needed > 0 && array && bytes >= needed);
}

inline bool holds_if_there(const void* array, Index bytes, Index needed) {
  return needed >= 0 && (!array || bytes >= needed);
}

inline bool fits(const Problem& p) {
  constexpr Index item = sizeof(float);
  const Index of_keys = dense(item, {p.batch, p.source, p.size});
  const Index of_powers = dense(item, {p.batch, p.source, p.size, p.is_split ? 2 : 1});
  return p.source <= INT32_MAX && holds(p.queries, p.bytes[0], dense(item, {p.batch, p.target, p.size})) &&
         holds(p.keys, p.bytes[1], of_keys) && holds_if_there(p.powers, p.bytes[2], of_powers) &&
         holds(p.vector, p.bytes[3], dense(item, {p.size})) &&
         holds_if_there(
             p.mask, p.bytes[4],
             reach(1, {{p.batch, p.mask_batch}, {p.target, p.mask_row}, {p.source, 1}}));
}

inline bool fits(const Problem& p, const Gradients& g) {
  constexpr Index item = sizeof(float);
  return fits(p) && holds(g.scores, g.bytes[0], dense(item, {p.batch, p.target, p.source})) &&
         holds_if_there(g.queries, g.bytes[1], dense(item, {p.batch, p.target, p.size})) &&
         holds_if_there(g.keys, g.bytes[2], dense(item, {p.batch, p.source, p.size})) &&
         holds_if_there(g.sigmoids, g.bytes[3], dense(sizeof(double), {p.batch, p.size})) &&
         (!g.keys || g.sigmoids);
}

inline Index item_of(Index is_bfloat16) { return is_bfloat16 ? sizeof(BFloat16) : sizeof(float); }

constexpr Index NUM_GATES[] = {1, 3, 4}, NUM_SAVED[] = {0, 4, 4};

inline bool is_cell(Index kind) { return kind >= ELMAN && kind <= LSTM; }

inline bool fits(const CellStep& s) {
  if (!is_cell(s.kind)) return false;
  const Index item = item_of(s.is_bfloat16), gates = NUM_GATES[s.kind];
  const Index state = dense(item, {s.rows, s.size}), cells = dense(sizeof(float), {s.rows, s.size});
  const Index of_gates = dense(item, {s.rows, gates, s.size});
  return of_gates >= 0 &&
         holds(s.input_gates, s.bytes[0],
               reach(item, {{s.rows, s.input_gates_row}, {gates * s.size, 1}})) &&
         holds(s.recurrent, s.bytes[1], of_gates) && holds(s.last_hidden, s.bytes[2], state) &&
         (s.kind != LSTM || (holds(s.last_cell, s.bytes[3], cells) && holds(s.cell, s.bytes[6], cells))) &&
         holds_if_there(s.mask, s.bytes[4], reach(1, {{s.rows, s.mask_row}})) &&
         holds(s.hidden, s.bytes[5], state) &&
         holds_if_there(s.saved, s.bytes[7], dense(item, {s.rows, NUM_SAVED[s.kind], s.size}));
}

inline bool fits(const CellBack& b) {
  if (!is_cell(b.kind)) return false;
  const Index item = item_of(b.is_bfloat16);
  const Index state = dense(item, {b.rows, b.size}), cells = dense(sizeof(float), {b.rows, b.size});
  const Index of_gates = dense(item, {b.rows, NUM_GATES[b.kind], b.size});
  return of_gates >= 0 &&
         holds_if_there(b.grad_output, b.bytes[0], reach(item, {{b.rows, b.grad_output_row}, {b.size, 1}})) &&
         holds_if_there(b.grad_recurrent, b.bytes[1], state) && holds(b.grad_carried, b.bytes[2], cells) &&
         (b.kind != LSTM || (holds(b.grad_cell, b.bytes[3], cells) && holds(b.last_cell, b.bytes[5], cells) &&
                             holds(b.cell, b.bytes[7], cells))) &&
         holds(b.last_hidden, b.bytes[4], state) && holds(b.hidden, b.bytes[6], state) &&
         holds(b.saved, b.bytes[8], dense(item, {b.rows, NUM_SAVED[b.kind], b.size})) &&
         holds_if_there(b.mask, b.bytes[9], reach(1, {{b.rows, b.mask_row}})) &&
         holds(b.input_gates, b.bytes[10], of_gates) && holds(b.recurrent, b.bytes[11], of_gates);
}

/// Whether all numbers are from 0 to before `end`.
inline bool are_below(const Index* numbers, Index count, Index end) {
  for (Index i = 0; i < count; ++i)
    if (numbers[i] < 0 || numbers[i] >= end) return false;
  return true;
}

inline bool fits(const Entropy& e) {
  const Index logits = dense(item_of(e.is_bfloat16), {e.rows, e.words});
  return e.words > 0 && holds(e.logits, e.bytes[0], logits) &&
         holds(e.targets, e.bytes[1], dense(sizeof(Index), {e.rows})) &&
         holds(e.log_sums, e.bytes[2], dense(sizeof(float), {e.rows})) &&
         are_below(e.targets, e.rows, e.words);
}

inline bool fits(const Dropping& d) {
  const Index bytes = dense(item_of(d.is_bfloat16), {d.count});
  return holds(d.from, d.bytes[0], bytes) && holds(d.to, d.bytes[1], bytes);
}

inline bool fits(const Candidates& c) {
  const Index found = dense(sizeof(float), {c.sentences, c.count});
  const Index places = dense(sizeof(Index), {c.sentences, c.count});
  Index choices;
  return c.hypotheses > 0 && c.words > 0 && c.count > 0 &&
         !__builtin_mul_overflow(c.hypotheses, c.words, &choices) && c.count <= choices &&
         holds(c.logits, c.bytes[0], dense(item_of(c.is_bfloat16), {c.sentences, choices})) &&
         holds(c.totals, c.bytes[1], dense(sizeof(float), {c.sentences, c.hypotheses})) &&
         holds(c.forbidden, c.bytes[2], dense(sizeof(Index), {c.num_forbidden})) &&
         are_below(c.forbidden, c.num_forbidden, c.words) &&
         holds(c.sums, c.bytes[3], found) && holds(c.logs, c.bytes[4], found) &&
         holds(c.parents, c.bytes[5], places) && holds(c.tokens, c.bytes[6], places);
}

inline bool fits(const Dots& d, bool back) {
  const Index item = item_of(d.is_bfloat16);
  const Index pairs = dense(sizeof(float), {d.batch, d.heads, d.target, d.source});
  auto has = [&](const Strided& array, int place, Index positions, Index size) {
    return holds(array.numbers, d.bytes[place],
                 reach(item, {{d.batch, array.batch}, {d.heads, array.head},
                              {positions, array.position}, {size, 1}}));
  };
  return pairs >= 0 && d.value_size >= 0 && d.size >= 0 &&
         has(d.queries, 0, d.target, d.size) && has(d.keys, 1, d.source, d.size) &&
         has(d.values, 2, d.source, d.value_size) && has(d.context, 3, d.target, d.value_size) &&
         (!back || (has(d.grad_queries, 4, d.target, d.size) && has(d.grad_keys, 5, d.source, d.size) &&
                    has(d.grad_values, 6, d.source, d.value_size) && holds(d.weights, d.bytes[8], pairs))) &&
         holds_if_there(
             d.mask, d.bytes[7],
             reach(1, {{d.batch, d.mask_batch}, {d.target, d.mask_row}, {d.source, 1}})) &&
         holds_if_there(d.weights, d.bytes[8], pairs) && holds_if_there(d.scores, d.bytes[9], pairs);
}

// ------------------------------------------------------------ products with packed weights, and steps

constexpr Index LIMIT = INT32_MAX;  // of each size, so that sums and products of two sizes never overflow

/// In a sum of products that never overflows.
constexpr Index MOST_INTEGERS = INT32_MAX / (LARGEST_INTEGER * LARGEST_INTEGER);

/// Whether all sizes are within the limit.
inline bool are_possible(std::initializer_list<Index> sizes) {
  for (Index size : sizes)
    if (size < 0 || size >= LIMIT) return false;
  return true;
}

inline bool fits(const Packed& w) {
  if (w.lanes != in_use().lanes || !are_possible({w.columns, w.inner})) return false;
  const Index panel = 2 * w.lanes, panels = (w.columns + panel - 1) / panel;
  const Index of_columns = dense(sizeof(float), {w.columns});
  if (!holds_if_there(w.bias, w.bytes[2], of_columns)) return false;
  if (!w.integers) return holds(w.panels, w.bytes[0], dense(sizeof(float), {panels, panel, w.inner}));
  return !w.panels && w.inner <= MOST_INTEGERS &&
         holds(w.integers, w.bytes[1], dense(4, {panels, panel, (w.inner + 3) / 4})) &&
         holds(w.scales, w.bytes[3], of_columns) && holds(w.totals, w.bytes[4], of_columns);
}

inline bool fits(const Packed& w, Index columns, Index inner) {
  return fits(w) && w.columns == columns && w.inner == inner;
}

inline bool is_activation(Index name) { return name >= NONE && name <= TANH; }

inline bool fits(const Product& p) {
  if (!p.weight || !fits(*p.weight) || !are_possible({p.rows, p.x_step})) return false;
  const Index columns = p.weight->columns, inner = p.weight->inner;
  const Index results = dense(sizeof(float), {p.rows, columns});
  return is_activation(p.activation) && p.x_step >= inner &&
         dense(1, {p.rows, columns, inner}) >= 0 &&
         holds(p.x, p.bytes[0], reach(sizeof(float), {{p.rows, p.x_step}, {inner, 1}})) &&
         holds(p.y, p.bytes[1], results) && holds_if_there(p.z, p.bytes[2], results);
}

inline bool fits(const Norm& n, Index size) {
  const Index bytes = dense(sizeof(float), {size});
  return holds(n.weight, n.bytes[0], bytes) && holds(n.bias, n.bytes[1], bytes);
}

inline bool fits(const DecoderLayer& l, Index size, Index inner) {
  return fits(l.projection, 3 * size, size) && fits(l.self_output, size, size) &&
         fits(l.query, size, size) && fits(l.cross_output, size, size) && fits(l.inner, inner, size) &&
         fits(l.outer, size, inner) && fits(l.self_norm, size) && fits(l.cross_norm, size) &&
         fits(l.feed_forward_norm, size);
}

/// Whether the arrays of a step are as large as its sizes, except its layers.
inline bool has_arrays(const DecoderStep& s) {
  constexpr Index item = sizeof(float);
  const Index rows = s.sentences * s.hypotheses, turns = dense(item, {s.size / s.heads});
  return holds(s.layer, s.bytes[0], dense(sizeof(DecoderLayer), {s.layers})) &&
         holds(s.states, s.bytes[1], dense(item, {rows, s.size})) &&
         holds(s.cache, s.bytes[2], dense(item, {s.layers, 2, s.stored, s.capacity, s.size})) &&
         holds(s.memory, s.bytes[3], dense(item, {s.layers, 2, s.stored, s.source, s.size})) &&
         holds(s.entries, s.bytes[4], dense(sizeof(Index), {s.sentences})) &&
         holds(s.slots, s.bytes[5], dense(sizeof(Index), {rows, s.positions})) &&
         holds_if_there(s.mask, s.bytes[6], dense(1, {s.stored, s.source})) &&
         holds_if_there(s.cosines, s.bytes[7], turns) && holds_if_there(s.sines, s.bytes[8], turns) &&
         holds(s.room, s.bytes[9], dense(item, {rows, s.inner + 4 * s.size})) &&
         holds_if_there(s.own, s.bytes[10], dense(item, {2, rows, s.layers, s.heads, s.positions})) &&
         holds_if_there(s.cross, s.bytes[11], dense(item, {2, rows, s.layers, s.heads, s.source}));
}

inline bool fits(const DecoderStep& s) {
  if (!are_possible({s.sentences, s.stored, s.hypotheses, s.layers, s.heads, s.size, s.inner, s.positions, s.filled,
                     s.capacity, s.source}))
    return false;
  if (s.size == 0 || s.heads == 0 || s.size % s.heads || s.filled + s.hypotheses > s.capacity) return false;
  const Index rows = s.sentences * s.hypotheses, seen = s.positions > s.source ? s.positions : s.source;
  if (!has_arrays(s) || !is_activation(s.activation) || dense(1, {rows, seen, s.size}) < 0) return false;
  if (dense(sizeof(float), {rows, 8, s.size + s.inner, s.size}) < 0) return false;
  if (!s.cosines != !s.sines || (s.cosines && s.size / s.heads % 2)) return false;
  if (s.last.weight && !fits(s.last, s.size)) return false;
  for (Index i = 0; i < s.layers; ++i)
    if (!fits(s.layer[i], s.size, s.inner)) return false;
  return are_below(s.entries, s.sentences, s.stored) &&
         are_below(s.slots, rows * s.positions, s.filled + s.hypotheses);
}

}  // namespace
