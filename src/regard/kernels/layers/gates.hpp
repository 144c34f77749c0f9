// Gates of the recurrent cells and their gradients. With a = W x + b + U h + c:
//
//   Elman  h' = tanh(a)
//   GRU    r, z = sigmoid(a), n = tanh(a_n + r u_n), h' = n + z (h - n), with u the recurrent part
//   LSTM   i, f, o = sigmoid(a), g = tanh(a), c' = f c + i g, h' = o tanh(c')
//
// Gates lie side by side as in PyTorch's weights: r z n, and i f g o.
#pragma once

#include "layers/cells.hpp"
#include "vector.hpp"

namespace {

inline Vector sigmoid(Vector x) {
  const Vector found = 1.0f / (1.0f + exponential(within(-x, 87)));
  return x == x ? found : x;
}

/// Accurate to one rounding: by its series near zero, where a difference of numbers near one would
/// lose all digits.
inline Vector hyperbolic_tangent(Vector x) {
  const Vector found = 1.0f - 2.0f / (1.0f + exponential(within(x + x, 87)));
  const Vector square = x * x, near = x - x * square * (1.0f / 3);
  return absolute(x) < 0.01f ? near : x == x ? found : x;
}

inline Vector through_sigmoid(Vector gradient, Vector found) {
  return gradient * (found - found * found);
}

inline Vector through_tanh(Vector gradient, Vector found) {
  return gradient - gradient * found * found;
}

// ------------------------------------------------------------------------------------- one number

/// The numbers of one row.
template <typename Number>
struct StepRow {
  const Number *input_gates, *recurrent, *last_hidden;
  const float* last_cell;
  Number *hidden, *saved;
  float* cell;
  Index size;

  template <typename Count>
  Vector sum(Index gate, Index place, Count count) const {
    return load(input_gates + gate * size + place, count) + load(recurrent + gate * size + place, count);
  }
  template <typename Count>
  void keep(Index part, Index place, Count count, Vector vector) const {
    if (saved) store(saved + part * size + place, vector, count);
  }
};

template <typename Number, typename Count>
inline void step_elman(const StepRow<Number>& row, Index place, Count count) {
  store(row.hidden + place, hyperbolic_tangent(row.sum(0, place, count)), count);
}

template <typename Number, typename Count>
inline void step_gru(const StepRow<Number>& row, Index place, Count count) {
  const Vector reset = sigmoid(row.sum(0, place, count)), update = sigmoid(row.sum(1, place, count));
  const Index third = 2 * row.size + place;
  const Vector part = load(row.recurrent + third, count);
  const Vector fresh = hyperbolic_tangent(load(row.input_gates + third, count) + reset * part);
  row.keep(0, place, count, reset);
  row.keep(1, place, count, update);
  row.keep(2, place, count, fresh);
  row.keep(3, place, count, part);
  store(row.hidden + place, fresh + update * (load(row.last_hidden + place, count) - fresh), count);
}

template <typename Number, typename Count>
inline void step_lstm(const StepRow<Number>& row, Index place, Count count) {
  const Vector enter = sigmoid(row.sum(0, place, count)), forget = sigmoid(row.sum(1, place, count));
  const Vector fresh = hyperbolic_tangent(row.sum(2, place, count));
  const Vector leave = sigmoid(row.sum(3, place, count));
  row.keep(0, place, count, enter);
  row.keep(1, place, count, forget);
  row.keep(2, place, count, fresh);
  row.keep(3, place, count, leave);
  const Vector cell = forget * load(row.last_cell + place, count) + enter * fresh;
  store(row.cell + place, cell, count);
  store(row.hidden + place, leave * hyperbolic_tangent(cell), count);
}

/// Number of gates of a cell, and number of vectors it saves for its gradient.
constexpr Index gates_of(Index kind) { return kind == ELMAN ? 1 : kind == GRU ? 3 : 4; }
constexpr Index saved_of(Index kind) { return kind == ELMAN ? 0 : 4; }

template <typename Number>
void step(const CellStep& step, Index first, Index end) {
  const Index size = step.size, gates = gates_of(step.kind) * size, saved = saved_of(step.kind) * size;
  for (Index i = first; i < end; ++i) {
    const bool has_cell = step.kind == LSTM;
    const StepRow<Number> row{static_cast<const Number*>(step.input_gates) + i * step.input_gates_row,
                              static_cast<const Number*>(step.recurrent) + i * gates,
                              static_cast<const Number*>(step.last_hidden) + i * size,
                              has_cell ? step.last_cell + i * size : nullptr,
                              static_cast<Number*>(step.hidden) + i * size,
                              step.saved ? static_cast<Number*>(step.saved) + i * saved : nullptr,
                              has_cell ? step.cell + i * size : nullptr,
                              size};
    if (step.mask && !step.mask[i * step.mask_row]) {
      std::memcpy(row.hidden, row.last_hidden, sizeof(Number) * size);
      if (has_cell) std::memcpy(row.cell, row.last_cell, sizeof(float) * size);
      if (row.saved) std::memset(row.saved, 0, sizeof(Number) * saved);
      continue;
    }
    over(size, [&](Index place, auto count) {
      if (step.kind == LSTM)
        step_lstm(row, place, count);
      else if (step.kind == GRU)
        step_gru(row, place, count);
      else
        step_elman(row, place, count);
    });
  }
}

void step(const CellStep& given, Index first, Index end) {
  given.is_bfloat16 ? step<BFloat16>(given, first, end) : step<float>(given, first, end);
}

// ---------------------------------------------------------------------------------------- gradients

template <typename Number>
struct BackRow {
  const Number *grad_output, *grad_recurrent, *last_hidden, *hidden, *saved;
  const float *last_cell, *cell;
  float *grad_carried, *grad_cell;
  Number *input_gates, *recurrent;
  Index size;

  /// The whole gradient of the new state.
  template <typename Count>
  Vector gradient(Index place, Count count) const {
    Vector all = load(grad_carried + place, count);
    if (grad_output) all += load(grad_output + place, count);
    if (grad_recurrent) all += load(grad_recurrent + place, count);
    return all;
  }
  template <typename Count>
  Vector part(Index number, Index place, Count count) const {
    return load(saved + number * size + place, count);
  }
  template <typename Count>
  void give(Index gate, Index place, Count count, Vector vector) const {
    store(input_gates + gate * size + place, vector, count);
  }
};

template <typename Number, typename Count>
inline void back_elman(const BackRow<Number>& row, Index place, Count count) {
  const Vector found = load(row.hidden + place, count);
  row.give(0, place, count, through_tanh(row.gradient(place, count), found));
  store(row.grad_carried + place, Vector{}, count);
}

template <typename Number, typename Count>
inline void back_gru(const BackRow<Number>& row, Index place, Count count) {
  const Vector reset = row.part(0, place, count), update = row.part(1, place, count);
  const Vector fresh = row.part(2, place, count), part = row.part(3, place, count);
  const Vector hidden = row.gradient(place, count), grad_carried = hidden * update;
  const Vector before_fresh = through_tanh(hidden - grad_carried, fresh);
  const Vector before_update =
      through_sigmoid(hidden * (load(row.last_hidden + place, count) - fresh), update);
  const Vector before_reset = through_sigmoid(before_fresh * part, reset);
  store(row.grad_carried + place, grad_carried, count);
  row.give(0, place, count, before_reset);
  row.give(1, place, count, before_update);
  row.give(2, place, count, before_fresh);
  store(row.recurrent + place, before_reset, count);
  store(row.recurrent + row.size + place, before_update, count);
  store(row.recurrent + 2 * row.size + place, before_fresh * reset, count);
}

template <typename Number, typename Count>
inline void back_lstm(const BackRow<Number>& row, Index place, Count count) {
  const Vector enter = row.part(0, place, count), forget = row.part(1, place, count);
  const Vector fresh = row.part(2, place, count), leave = row.part(3, place, count);
  const Vector hidden = row.gradient(place, count);
  const Vector shown = hyperbolic_tangent(load(row.cell + place, count));
  const Vector cell = load(row.grad_cell + place, count) + through_tanh(hidden * leave, shown);
  row.give(0, place, count, through_sigmoid(cell * fresh, enter));
  row.give(1, place, count, through_sigmoid(cell * load(row.last_cell + place, count), forget));
  row.give(2, place, count, through_tanh(cell * enter, fresh));
  row.give(3, place, count, through_sigmoid(hidden * shown, leave));
  store(row.grad_cell + place, cell * forget, count);
  store(row.grad_carried + place, Vector{}, count);
}

/// A row that kept its state: the gradient is carried over, and that of the gates is zero.
template <typename Number>
void back_kept(const CellBack& back, const BackRow<Number>& row) {
  over(back.size, [&](Index place, auto count) {
    store(row.grad_carried + place, row.gradient(place, count), count);
  });
  const Index gates = gates_of(back.kind) * back.size;
  std::memset(row.input_gates, 0, sizeof(Number) * gates);
  if (back.kind == GRU) std::memset(row.recurrent, 0, sizeof(Number) * gates);
}

template <typename Number>
void back(const CellBack& back, Index first, Index end) {
  const Index size = back.size, gates = gates_of(back.kind) * size, saved = saved_of(back.kind) * size;
  auto at = [](const void* from, Index place) {
    return from ? static_cast<const Number*>(from) + place : nullptr;
  };
  for (Index i = first; i < end; ++i) {
    const bool has_cell = back.kind == LSTM;
    const BackRow<Number> row{at(back.grad_output, i * back.grad_output_row),
                              at(back.grad_recurrent, i * size),
                              at(back.last_hidden, i * size),
                              at(back.hidden, i * size),
                              at(back.saved, i * saved),
                              has_cell ? back.last_cell + i * size : nullptr,
                              has_cell ? back.cell + i * size : nullptr,
                              back.grad_carried + i * size,
                              has_cell ? back.grad_cell + i * size : nullptr,
                              static_cast<Number*>(back.input_gates) + i * gates,
                              static_cast<Number*>(back.recurrent) + i * gates,
                              size};
    if (back.mask && !back.mask[i * back.mask_row]) {
      back_kept(back, row);
      continue;
    }
    over(size, [&](Index place, auto count) {
      if (back.kind == LSTM)
        back_lstm(row, place, count);
      else if (back.kind == GRU)
        back_gru(row, place, count);
      else
        back_elman(row, place, count);
    });
  }
}

void back(const CellBack& given, Index first, Index end) {
  given.is_bfloat16 ? back<BFloat16>(given, first, end) : back<float>(given, first, end);
}

}  // namespace
