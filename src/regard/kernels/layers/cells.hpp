// One step of a recurrent layer and its gradient, without the matrix products. `Number` is float or
// BFloat16 (`is_bfloat16`); cells are always float. compiled/recurrent/native_cells.py has the same
// structures.
#pragma once

#include "numbers.hpp"

enum CellKind : Index { ELMAN, GRU, LSTM };

/// Inputs and results of a step. A row whose mask is 0 keeps its state; without a mask all rows are
/// real. Arrays are dense, except those with a distance between rows (`_row`).
struct CellStep {
  Index kind, rows, size, is_bfloat16, threads;
  const void* input_gates;  // W x + b: rows x gates
  Index input_gates_row;
  const void* recurrent;  // U h + c: rows x gates
  const void* last_hidden;
  const float* last_cell;
  const std::uint8_t* mask;
  Index mask_row;
  void* hidden;
  float* cell;
  void* saved;  // rows x saved: values that the gradient needs; or null
  Index bytes[8];  // of each array above, in their order; 0 for null
};

/// Inputs and results of the gradient of a step.
struct CellBack {
  Index kind, rows, size, is_bfloat16, threads;
  const void* grad_output;  // gradient from outside the layer, or null
  Index grad_output_row;
  const void* grad_recurrent;  // gradient through the later step's recurrent gates, or null
  float* grad_carried;  // gradient carried over without a product: the later step's, then this one's
  float* grad_cell;     // likewise
  const void* last_hidden;
  const float* last_cell;
  const void* hidden;
  const float* cell;
  const void* saved;
  const std::uint8_t* mask;
  Index mask_row;
  void* input_gates;  // rows x gates
  void* recurrent;    // rows x gates; not written for cells for which it equals input_gates
  Index bytes[12];  // of each array above, in their order; 0 for null
};
