// The functions of one instruction set: block.cpp fills one such table for each.
#pragma once

#include "attention/additive.hpp"
#include "layers/cells.hpp"
#include "attention/dots_problem.hpp"
#include "models/step.hpp"

/// Rows of logits, one for each target word. compiled/losses/linear_cross_entropy.py has the same
/// structure.
struct Entropy {
  Index rows, words, is_bfloat16, threads;
  const void* logits;    // rows x words: float, or BFloat16 (`is_bfloat16`)
  const Index* targets;  // target word of each row
  float* log_sums;       // of each row: written in the forward pass, read in the backward pass
  void* grads;           // rows x words; may overwrite the logits
  float smoothing;
  Index bytes[4];  // of each array above, in their order; 0 for null
};

/// Input and output of dropout. layers/dropout.py has the same structure.
struct Dropping {
  Index count, is_bfloat16, threads;
  const void* from;
  void* to;
  std::uint64_t seed;
  float keep;
  Index bytes[2];  // of both arrays
};

/// Next words of every hypothesis of some sentences, and the best of them. compiled/candidates.py
/// has the same structure.
struct Candidates {
  Index sentences, hypotheses, words, count, num_forbidden, is_bfloat16, threads;
  const void* logits;   // sentences x hypotheses x words: float, or BFloat16 (`is_bfloat16`)
  const float* totals;  // of each hypothesis
  const Index* forbidden;  // words to exclude
  float* sums;          // sentences x count, like the arrays below; count <= hypotheses x words
  float* logs;          // log probabilities: -inf if the sum is
  Index* parents;       // the hypothesis
  Index* tokens;        // the word
  Index bytes[7];       // of each array above
};

struct Kernels {
  int lanes;  // numbers in its vectors

  // ---------------------------------------------------------------------------- additive attention

  /// Scores, without the sum of v, of the queries from `first` to before `end` of a sentence, or
  /// the softmax of `scale` times these scores. Room: tile_room(problem) + keys_room(problem).
  void (*weigh)(const Problem&, const Plan&, Index sentence, Index first, Index end, bool softmax,
                float scale, float* weights, float* room);

  /// Gradients of `lanes` numbers from `place` on, of all queries and keys of a sentence.
  /// Room: 3 * (target + source) * lanes.
  void (*differentiate_slice)(const Problem&, const Plan&, const Gradients&, Index sentence,
                              Index place, float* room);

  /// Gradient of one query only, if the powers of the keys are given. Room: 3 * size.
  void (*differentiate_query)(const Problem&, const Plan&, const Gradients&, Index sentence,
                              Index row, float* room);

  /// scale * w (g - sum(w g)) of a row, written over g; 0 if w is 0.
  void (*through_softmax)(const float* weights, float* grads, float scale, Index count);

  // -------------------------------------------------------------------------------- recurrent cells

  /// Some rows of a step.
  void (*step)(const CellStep&, Index first, Index end);
  void (*back)(const CellBack&, Index first, Index end);

  // ---------------------------------------------------------------------------------- cross entropy

  /// Loss of a row, with the log of its sum of exponentials saved; and the gradient of its logits.
  double (*cross_entropy)(const Entropy&, Index row);
  void (*cross_entropy_back)(const Entropy&, Index row, float above);

  // ------------------------------------------------------------------- attention by dot products

  /// One head of one sentence. Room: room_of(dots).
  void (*attend)(const Dots&, Index task, float* room);
  void (*attend_back)(const Dots&, Index task, float* room);

  // ---------------------------------------------------------------------------------------- dropout

  /// Some of the numbers. Their noise depends on their positions.
  void (*drop)(const Dropping&, Index first, Index end);

  // ----------------------------------------------------------------------------------------- search

  /// Candidates of one sentence.
  void (*candidates)(const Candidates&, Index sentence);

  // -------------------------------------------------- products with packed weights, and decoder steps

  void (*pack)(const float* weight, Index columns, Index inner, float* panels);

  /// All rows and some panels.
  void (*multiply)(const Product&, Index first, Index end);

  /// One row. Room: quantised_size(inner), at the beginning of a cache line.
  void (*quantise)(const float* x, Index inner, float* room);

  /// All rows, which are quantised, and some panels of integers.
  void (*multiply_integers)(const Product&, const float* room, Index first, Index end);

  /// One row; both arrays may be the same.
  void (*normalise)(const Norm&, const float* x, float* y, Index size);

  /// contexts = weights values, of some rows of one sentence.
  void (*mix)(const float* weights, const float* values, Index rows, Index source, Index size,
              float* contexts);

  /// One head of a hypothesis, in place.
  void (*rotate)(float* vector, const float* cosines, const float* sines, Index part);

  /// All heads of one hypothesis. Room: positions + MAX_LANES.
  void (*attend_to_positions)(const Heads&, float* weights);
};

/// The functions of the instruction set in use.
const Kernels& in_use();

/// Whether products of integers use the instructions for dot products of bytes (AVX-512 VNNI).
bool has_byte_products();
