// Checks of the encoder's arrays, as in sizes.hpp.
#pragma once

#include "models/encoder.hpp"
#include "sizes.hpp"

namespace {

inline bool fits(const EncoderLayer& l, Index size, Index inner) {
  return fits(l.projection, 3 * size, size) && fits(l.output, size, size) && fits(l.inner, inner, size) &&
         fits(l.outer, size, inner) && fits(l.self_norm, size) && fits(l.feed_forward_norm, size);
}

inline bool has_arrays(const EncoderPass& p) {
  constexpr Index item = sizeof(float);
  const Index turns = dense(item, {p.source, p.size / p.heads});
  return holds(p.layer, p.bytes[0], dense(sizeof(EncoderLayer), {p.layers})) &&
         holds(p.embedded, p.bytes[1], dense(item, {p.sentences, p.source, p.size})) &&
         holds_if_there(p.mask, p.bytes[2], dense(1, {p.sentences, p.source})) &&
         holds_if_there(p.cosines, p.bytes[3], turns) && holds_if_there(p.sines, p.bytes[4], turns) &&
         holds(p.states, p.bytes[5], dense(item, {p.layers, p.sentences, p.source, p.size}));
}

inline bool fits(const EncoderPass& p) {
  if (!are_possible({p.sentences, p.source, p.layers, p.heads, p.size, p.inner})) return false;
  if (p.size == 0 || p.heads == 0 || p.size % p.heads || !is_activation(p.activation)) return false;
  const Index rows = p.sentences * p.source;
  if (!are_possible({rows}) || !has_arrays(p)) return false;
  if (dense(1, {rows, p.source, p.size}) < 0 || dense(sizeof(float), {rows, 8, p.size + p.inner, p.size}) < 0)
    return false;
  if (!p.cosines != !p.sines || (p.cosines && p.size / p.heads % 2)) return false;
  if (p.last.weight && !fits(p.last, p.size)) return false;
  for (Index i = 0; i < p.layers; ++i)
    if (!fits(p.layer[i], p.size, p.inner)) return false;
  return true;
}

}  // namespace
