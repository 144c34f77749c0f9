// The functions of one instruction set: block.cpp fills one such table for each.
#pragma once

#include "additive.hpp"
#include "cells.hpp"
#include "dots_problem.hpp"

/// Rows of logits, one for each word to write. training/linear_cross_entropy.py
/// must agree.
struct Entropy {
  Index rows, words, is_bfloat16, threads;
  const void* logits;    // rows x words: float, or BFloat16 as `is_bfloat16` says
  const Index* targets;  // the word that each row should have written
  float* log_sums;       // of each row: written on the way there, read on the way back
  void* grads;           // rows x words; may be the logits' own place
  float smoothing;
  Index bytes[4];  // of each array above, in their order; 0 for null
};

/// Numbers, and where those that dropout keeps go. layers/dropout.py must agree.
struct Dropping {
  Index count, is_bfloat16, threads;
  const void* from;
  void* to;
  std::uint64_t seed;
  float keep;
  Index bytes[2];  // of both arrays
};

/// What every hypothesis of some sentences may write, and the best of it. search/candidates.py
/// must agree.
struct Candidates {
  Index sentences, hypotheses, words, count, num_forbidden, is_bfloat16, threads;
  const void* logits;   // sentences x hypotheses x words: float, or BFloat16 as `is_bfloat16` says
  const float* totals;  // of each hypothesis
  const Index* forbidden;  // words that may not be written
  float* sums;          // sentences x count, and so are the others; hypotheses x words are as many
  float* logs;          // log probabilities: -inf where the sum is
  Index* parents;       // the hypothesis
  Index* tokens;        // the word
  Index bytes[7];       // of each array above
};

struct Kernels {
  int lanes;  // numbers in its vectors

  // ---------------------------------------------------------------------------- additive attention

  /// Scores without their constant of the queries from `first` to before `end` of a sentence, or
  /// the softmax of `scale` times them. Room: tile_room(problem) + keys_room(problem).
  void (*weigh)(const Problem&, const Plan&, Index sentence, Index first, Index end, bool softmax,
                float scale, float* weights, float* room);

  /// Gradients of `lanes` numbers of all queries and keys of a sentence, from `place` on.
  /// Room: 3 * (target + source) * lanes.
  void (*differentiate_slice)(const Problem&, const Plan&, const Gradients&, Index sentence,
                              Index place, float* room);

  /// The gradient of one query alone, where the keys' powers are there. Room: 3 * size.
  void (*differentiate_query)(const Problem&, const Plan&, const Gradients&, Index sentence,
                              Index row, float* room);

  /// scale * w (g - sum(w g)) of a row, in the place of g; 0 where w is.
  void (*through_softmax)(const float* weights, float* grads, float scale, Index count);

  // -------------------------------------------------------------------------------- recurrent cells

  /// Some rows of a step.
  void (*step)(const CellStep&, Index first, Index end);
  void (*back)(const CellBack&, Index first, Index end);

  // ---------------------------------------------------------------------------------- cross entropy

  /// The loss of a row, whose log of the sum of powers is kept; and the gradient of its logits.
  double (*cross_entropy)(const Entropy&, Index row);
  void (*cross_entropy_back)(const Entropy&, Index row, float above);

  // ------------------------------------------------------------------- attention by dot products

  /// One head of one sentence. Room: room_of(dots).
  void (*attend)(const Dots&, Index task, float* room);
  void (*attend_back)(const Dots&, Index task, float* room);

  // ---------------------------------------------------------------------------------------- dropout

  /// Some of the numbers; their noise follows from their places.
  void (*drop)(const Dropping&, Index first, Index end);

  // ----------------------------------------------------------------------------------------- search

  /// The best of one sentence.
  void (*candidates)(const Candidates&, Index sentence);
};
