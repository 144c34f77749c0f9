// Products with packed weights, and a step of a Transformer's decoder:
//
//   y = y + self-attention(norm(y))
//   y = y + cross-attention(norm(y), memory)
//   y = y + W2 activation(W1 norm(y))                 in every layer; or each norm after its sum
//
// The reference is `DecoderLayer` in models/transformer/decoder.py. Every part writes only its own rows.
#include <cstring>

#include "sizes.hpp"
#include "models/sublayers.hpp"
#include "threads.hpp"

namespace {

constexpr Index PANELS_OF_TASK = 8;

bool is_small(const Product& p) {
  return p.threads < 2 || p.rows * p.weight->columns * p.weight->inner < WORTH_SHARING;
}

/// Call multiply(first, end) for all panels, some at a time.
template <typename Multiply>
void by_panels(const Product& product, const Multiply& multiply) {
  const Packed& weight = *product.weight;
  const Index panel = 2 * weight.lanes, panels = (weight.columns + panel - 1) / panel;
  const Index tasks = (panels + PANELS_OF_TASK - 1) / PANELS_OF_TASK;
  if (is_small(product)) return multiply(0, panels);
  share_out(tasks, 0, product.threads, [&](Index task, float*) {
    const Index first = task * PANELS_OF_TASK, end = first + PANELS_OF_TASK;
    multiply(first, end < panels ? end : panels);
  });
}

void multiply_integers(const Product& product) {
  const Index inner = product.weight->inner, size = quantised_size(inner);
  const Room room(product.rows * size);
  share_out(product.rows, 0, is_small(product) ? 1 : product.threads, [&](Index row, float*) {
    in_use().quantise(product.x + row * product.x_step, inner, room.numbers() + row * size);
  });
  by_panels(product, [&](Index first, Index end) {
    in_use().multiply_integers(product, room.numbers(), first, end);
  });
}

/// The arrays of a step, in rows of its room.
class Layers : Sublayers {
 public:
  explicit Layers(const DecoderStep& step)
      : Sublayers(step.states, step.room, step.sentences * step.hypotheses, step.size, step.norm_first,
                  step.activation, step.threads),
        step_(step), projected_(normed_ + rows_ * size_), hidden_(projected_) {}

  void run() const {
    for (Index i = 0; i < step_.layers; ++i) {
      const DecoderLayer& layer = step_.layer[i];
      multiply_(layer.projection, before(layer.self_norm), projected_);
      append(i);
      attend_to_tokens(i);
      after(layer.self_norm, layer.self_output, normed_);
      multiply_(layer.query, before(layer.cross_norm), projected_);
      attend_to_source(i);
      after(layer.cross_norm, layer.cross_output, normed_);
      feed_forward(layer.feed_forward_norm, layer.inner, layer.outer, hidden_);
    }
    if (step_.last.weight) normalise(step_.last, states_, states_);
  }

 private:
  float* cached(Index layer, Index which, Index sentence) const {
    const Index entry = (layer * 2 + which) * step_.stored + step_.entries[sentence];
    return step_.cache + entry * step_.capacity * size_;
  }

  /// Write the new keys and values to the cache; rotate queries and keys.
  void append(Index layer) const {
    const Index part = size_ / step_.heads;
    for (Index row = 0; row < rows_; ++row) {
      float* query = projected_ + row * 3 * size_;
      const Index sentence = row / step_.hypotheses;
      const Index place = (step_.filled + row % step_.hypotheses) * size_;
      if (step_.cosines)
        for (Index head = 0; head < 2 * step_.heads; ++head)
          in_use().rotate(query + head * part, step_.cosines, step_.sines, part);
      for (Index which = 0; which < 2; ++which)
        std::memcpy(cached(layer, which, sentence) + place, query + (1 + which) * size_,
                    sizeof(float) * size_);
    }
  }

  void attend_to_tokens(Index layer) const {
    attend(layer, step_.positions, step_.own, [&](Index row, Heads& heads) {
      const Index sentence = row / step_.hypotheses;
      heads.queries = projected_ + row * 3 * size_;
      heads.keys = cached(layer, 0, sentence);
      heads.values = cached(layer, 1, sentence);
      heads.slots = step_.slots + row * step_.positions;
      heads.scale = step_.self_scale;
    });
  }

  void attend_to_source(Index layer) const {
    attend(layer, step_.source, step_.cross, [&](Index row, Heads& heads) {
      const Index entry = step_.entries[row / step_.hypotheses], of_sentence = step_.source * size_;
      heads.queries = projected_ + row * size_;
      heads.keys = step_.memory + (layer * 2 * step_.stored + entry) * of_sentence;
      heads.values = heads.keys + step_.stored * of_sentence;
      heads.mask = step_.mask ? step_.mask + entry * step_.source : nullptr;
      heads.scale = step_.cross_scale;
    });
  }

  /// Weights or scores (`which`) of the first head of a row; null if there are none.
  float* place(float* numbers, Index which, Index layer, Index row, Index positions) const {
    const Index sentence = which * step_.sentences + row / step_.hypotheses;
    const Index heads = (sentence * step_.layers + layer) * step_.heads;
    return numbers ? numbers + (heads * step_.hypotheses + row % step_.hypotheses) * positions : nullptr;
  }

  /// Write the context of every row to `normed_`, and weights and scores to `kept` unless it is null.
  /// `describe` sets the other fields of a row.
  template <typename Describe>
  void attend(Index layer, Index positions, float* kept, const Describe& describe) const {
    const Index threads = rows_ * positions * size_ < WORTH_SHARING ? 1 : step_.threads;
    share_out(rows_, positions + MAX_LANES, threads, [&](Index row, float* weights) {
      Heads heads{};
      heads.contexts = normed_ + row * size_;
      heads.weights = place(kept, 0, layer, row, positions);
      heads.scores = place(kept, 1, layer, row, positions);
      heads.heads = step_.heads;
      heads.part = size_ / step_.heads;
      heads.step = size_;
      heads.count = positions;
      heads.between = step_.hypotheses * positions;
      describe(row, heads);
      in_use().attend_to_positions(heads, weights);
    });
  }

  const DecoderStep& step_;
  float *const projected_, *const hidden_;
};

}  // namespace

void multiply_packed(const Product& product) {
  if (product.weight->integers) return multiply_integers(product);
  by_panels(product, [&](Index first, Index end) { in_use().multiply(product, first, end); });
}

EXPORTED int regard_pack(const float* weight, Index bytes, const Packed* packed) {
  if (packed->integers || !fits(*packed) || !holds(weight, bytes, dense(sizeof(float), {packed->columns, packed->inner})))
    return WRONG_SIZES;
  in_use().pack(weight, packed->columns, packed->inner, const_cast<float*>(packed->panels));
  return 0;
}

EXPORTED int regard_multiply(const Product* product) try {
  if (!fits(*product)) return WRONG_SIZES;
  multiply_packed(*product);
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}

EXPORTED int regard_decoder_step(const DecoderStep* step) try {
  if (!fits(*step)) return WRONG_SIZES;
  Layers(*step).run();
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}
