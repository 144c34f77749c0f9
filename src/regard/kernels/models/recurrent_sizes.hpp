// Checks of a recurrent decoder's step, as in sizes.hpp.
#pragma once

#include "models/recurrent_step.hpp"
#include "sizes.hpp"

namespace {

inline Index fed_size(const RecurrentStep& s) {
  return s.feeds == CONTEXT_FED ? s.value : s.feeds == FEATURES_FED ? s.features : 0;
}

/// Size of the inputs of the lowest layer: the token, and the context or the fed vector.
inline Index input_size(const RecurrentStep& s) {
  return s.embedding + (s.attends_first ? s.value : fed_size(s));
}

inline bool fits_output(const RecurrentStep& s) {
  const Index both = s.size + s.value;
  switch (s.output) {
    case STATE_OUTPUT: return s.features == s.size;
    case LINEAR_OUTPUT: return s.features == both;
    case TANH_OUTPUT: return fits(s.combined, s.features, both);
    case DEEP_OUTPUT: return fits(s.combined, 2 * s.features, both + s.embedding);
    case SUMMED_OUTPUT: return s.features == s.embedding && fits(s.combined, s.features, both);
    default: return false;
  }
}

inline bool fits_layers(const RecurrentStep& s) {
  const Index gates = NUM_GATES[s.kind] * s.size;
  for (Index i = 0; i < s.layers; ++i) {
    const RecurrentLayer& layer = s.layer[i];
    if (!fits(layer.input, gates, i ? s.size : input_size(s)) || !fits(layer.recurrent, gates, s.size))
      return false;
  }
  return !s.is_additive || fits(s.query, s.key, s.size);
}

inline bool has_arrays(const RecurrentStep& s) {
  constexpr Index item = sizeof(float), index = sizeof(Index);
  const Index rows = s.sentences * s.hypotheses, cells = s.kind == LSTM ? s.layers : 0;
  const Index states = dense(item, {s.layers, rows, s.size}), pairs = dense(item, {rows, s.source});
  return holds(s.layer, s.bytes[0], dense(sizeof(RecurrentLayer), {s.layers})) &&
         holds(s.vector, s.bytes[1], dense(item, {s.is_additive ? s.key : 0})) &&
         holds(s.embeddings, s.bytes[2], dense(item, {s.words, s.embedding})) &&
         holds(s.tokens, s.bytes[3], dense(index, {rows})) &&
         holds(s.entries, s.bytes[4], dense(index, {s.sentences})) &&
         holds(s.parents, s.bytes[5], dense(index, {rows})) &&
         holds(s.keys, s.bytes[6], dense(item, {s.stored, s.source, s.key})) &&
         holds(s.values, s.bytes[7], dense(item, {s.stored, s.source, s.value})) &&
         holds_if_there(s.powers, s.bytes[8], dense(item, {s.stored, s.source, s.key, s.is_split ? 2 : 1})) &&
         holds_if_there(s.mask, s.bytes[9], dense(1, {s.stored, s.source})) &&
         holds(s.last_hidden, s.bytes[10], dense(item, {s.layers, s.last_rows, s.size})) &&
         holds(s.last_cell, s.bytes[11], dense(item, {cells, s.last_rows, s.size})) &&
         holds(s.last_fed, s.bytes[12], dense(item, {s.last_rows, fed_size(s)})) &&
         holds(s.hidden, s.bytes[13], states) &&
         holds(s.cell, s.bytes[14], dense(item, {cells, rows, s.size})) &&
         holds(s.context, s.bytes[15], dense(item, {rows, s.value})) &&
         holds(s.result, s.bytes[16], dense(item, {rows, s.features})) &&
         holds_if_there(s.weights, s.bytes[17], pairs) && holds_if_there(s.scores, s.bytes[18], pairs) &&
         states >= 0 && pairs >= 0;
}

inline bool fits(const RecurrentStep& s) {
  if (!are_possible({s.sentences, s.stored, s.hypotheses, s.last_rows, s.layers, s.size, s.embedding, s.words,
                     s.source, s.key, s.value, s.features}))
    return false;
  const Index rows = s.sentences * s.hypotheses;
  if (!is_cell(s.kind) || s.layers == 0 || s.size == 0 || !are_possible({rows})) return false;
  if (s.query_layer < 0 || s.query_layer >= s.layers || (!s.is_additive && s.key != s.size)) return false;
  if (s.feeds < NOTHING_FED || s.feeds > FEATURES_FED || (s.attends_first && s.feeds != NOTHING_FED)) return false;
  if (s.scores && !s.weights) return false;
  const Index numbers = s.size + input_size(s) + s.key + s.value + s.features;
  if (!has_arrays(s) || dense(1, {rows, s.source, s.key + s.value}) < 0) return false;
  if (dense(sizeof(float), {rows, 8, numbers, numbers}) < 0) return false;
  return fits_layers(s) && fits_output(s) && are_below(s.tokens, rows, s.words) &&
         are_below(s.entries, s.sentences, s.stored) && are_below(s.parents, rows, s.last_rows);
}

}  // namespace
