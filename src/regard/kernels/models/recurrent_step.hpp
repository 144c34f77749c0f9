// A step of a recurrent decoder with attention: structures. regard/compiled/recurrent/ has the same.
#pragma once

#include "models/step.hpp"

/// Layers between the states and the features: models/recurrent/output.py.
enum Output : Index { STATE_OUTPUT, LINEAR_OUTPUT, TANH_OUTPUT, DEEP_OUTPUT, SUMMED_OUTPUT };

/// Vector of the last step that enters a step, beside the token.
enum Fed : Index { NOTHING_FED, CONTEXT_FED, FEATURES_FED };

/// Gates of a recurrent layer: W x + b, and U h + c.
struct RecurrentLayer {
  Packed input, recurrent;
};

/// One token of every hypothesis. `rows` are sentences x hypotheses. The hypotheses of a sentence extend
/// rows of the last step, its `parents`. Sentences that are done stay among the `stored` ones.
struct RecurrentStep {
  Index sentences, stored, hypotheses, last_rows, layers, size, embedding, words, source, key, value,
      features, kind, attends_first, query_layer, output, feeds, is_additive, is_split, threads;
  const RecurrentLayer* layer;
  Packed query;     // W q of additive scores
  Packed combined;  // of the output layer, unless it has none
  const float* vector;      // key: v of additive scores
  const float* embeddings;  // words x embedding
  const Index* tokens;      // rows
  const Index* entries;     // sentences: the number of each among the stored ones
  const Index* parents;     // rows: the number of the row of the last step that each extends
  const float* keys;        // stored x source x key
  const float* values;      // stored x source x value
  const float* powers;      // of the keys of additive scores, as in `Problem`; or null
  const std::uint8_t* mask;  // stored x source: positions to attend to, or null
  const float* last_hidden;  // layers x last_rows x size
  const float* last_cell;    // likewise, for an LSTM
  const float* last_fed;     // last_rows x the fed size
  float* hidden;             // layers x rows x size
  float* cell;               // likewise
  float* context;            // rows x value
  float* result;             // rows x features
  float* weights;            // rows x source, or null
  float* scores;             // rows x source: before the mask and without `scale` if additive; or null
  float scale;
  Index bytes[19];  // of each array from `layer` to `scores`, without the packed weights; 0 for null
};
