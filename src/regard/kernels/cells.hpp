// One step of a recurrent layer and the way back through it, beside the products with matrices.
// `Number` is float or BFloat16, as `is_bfloat16` says; cells are always float. layers/recurrent/native_cells.py must agree
// on both structures.
#pragma once

#include "numbers.hpp"

enum CellKind : Index { ELMAN, GRU, LSTM };

/// What a step starts from and where its results go. Rows without a mask of their own are real; those
/// whose mask is 0 keep their state. All is dense but for rows that are said to be so far apart.
struct CellStep {
  Index kind, rows, size, is_bfloat16, threads;
  const void* of_input;  // W x + b: rows x gates
  Index of_input_row;
  const void* recurrent;  // U h + c: rows x gates
  const void* last_hidden;
  const float* last_cell;
  const std::uint8_t* mask;
  Index mask_row;
  void* hidden;
  float* cell;
  void* kept;  // rows x kept: what the way back needs
  Index bytes[8];  // of each array above, in their order; 0 for null
};

/// From the gradient of a step's state to those of what it was made of.
struct CellBack {
  Index kind, rows, size, is_bfloat16, threads;
  const void* above;  // the gradient that comes from outside of the layer, or null
  Index above_row;
  const void* around;  // what came through the later step's gates, or null
  float* passed;       // what passed the gates: first of the later step, then of this one
  float* grad_cell;    // likewise
  const void* last_hidden;
  const float* last_cell;
  const void* hidden;
  const float* cell;
  const void* kept;
  const std::uint8_t* mask;
  Index mask_row;
  void* of_input;   // rows x gates
  void* recurrent;  // rows x gates; not touched where it would be the same
  Index bytes[12];  // of each array above, in their order; 0 for null
};
