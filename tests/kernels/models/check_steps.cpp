// Steps of a Transformer's decoder, against loops in double precision.
#include <algorithm>
#include <deque>

#include "models/layer_norm.hpp"
#include "packed_linear.hpp"

namespace {

struct Case {
  Index sentences, hypotheses, layers, heads, size, inner, positions, filled, source, norm_first, activation;
  bool is_masked, rotates, has_last;
};

struct Layer {
  PackedLinear projection, self_output, query, cross_output, inner, outer;
  LayerNorm self_norm, cross_norm, feed_forward_norm;

  Layer(Index size, Index hidden, Random& random)
      : projection(3 * size, size, true, random), self_output(size, size, true, random),
        query(size, size, false, random), cross_output(size, size, true, random),
        inner(hidden, size, true, random), outer(size, hidden, true, random), self_norm(size, random),
        cross_norm(size, random), feed_forward_norm(size, random) {}

  DecoderLayer structure() const {
    return {projection.packed, self_output.packed, query.packed, cross_output.packed, inner.packed, outer.packed,
            self_norm.structure(), cross_norm.structure(), feed_forward_norm.structure()};
  }
};

/// A step with its arrays. Slots that no hypothesis may attend to, and hidden source positions, are NaN.
struct Problem {
  Case c;
  Index rows, stored, capacity, part;
  std::deque<Layer> layers;
  LayerNorm last;
  std::vector<DecoderLayer> structures;
  std::vector<float> states, cache, memory, cosines, sines, room, own, cross;
  std::vector<Index> entries, slots;
  std::vector<std::uint8_t> mask;
  DecoderStep step;

  Problem(const Case& c, Random& random)
      : c(c), rows(c.sentences * c.hypotheses), stored(c.sentences + 2), capacity(c.filled + c.hypotheses),
        part(c.size / c.heads), last(c.size, random), states(drawn<float>(random, rows * c.size)),
        cache(unknown<float>(c.layers * 2 * stored * capacity * c.size)),
        memory(drawn<float>(random, c.layers * 2 * stored * c.source * c.size)),
        cosines(c.rotates ? part : 0), sines(c.rotates ? part : 0),
        room(unknown<float>(rows * (c.inner + 4 * c.size))),
        own(unknown<float>(2 * rows * c.layers * c.heads * c.positions)),
        cross(unknown<float>(2 * rows * c.layers * c.heads * c.source)), entries(c.sentences),
        slots(rows * c.positions), mask(c.is_masked ? stored * c.source : 0) {
    for (std::size_t i = 0; i < cosines.size(); ++i) {  // a pair has one angle, so a rotation keeps lengths
      const double angle = 5 * (1 + i / 2);
      cosines[i] = float(std::cos(angle));
      sines[i] = float(std::sin(angle));
    }
    for (Index i = 0; i < c.sentences; ++i) entries[i] = c.sentences - i;  // neither first nor last
    for (Index i = 0; i < c.layers; ++i) layers.emplace_back(c.size, c.inner, random);
    for (const Layer& layer : layers) structures.push_back(layer.structure());
    for (Index row = 0; row < rows; ++row)
      for (Index i = 0; i < c.positions; ++i)  // own slot last
        slots[row * c.positions + i] =
            i + 1 < c.positions ? Index(random() % (c.filled ? c.filled : 1)) : c.filled + row % c.hypotheses;
    for (Index i = 0; i < c.layers * 2; ++i)
      for (Index row = 0; row < rows; ++row)
        for (Index j = 0; j < c.positions; ++j)
          for (Index d = 0; d < c.size; ++d)
            cache[place(i, row / c.hypotheses, slots[row * c.positions + j]) + d] = float(random() % 1000) / 500 - 1;
    for (std::size_t i = 0; i < mask.size(); ++i)  // the last sentence has no visible position
      mask[i] = Index(i) / c.source != 1 && random() % 3 != 0;
    for (Index i = 0; i < c.layers * 2; ++i)
      for (std::size_t j = 0; j < mask.size(); ++j)
        if (!mask[j]) std::fill_n(memory.begin() + (i * mask.size() + j) * c.size, c.size, NAN);
    step = {c.sentences, stored, c.hypotheses, c.layers, c.heads, c.size, c.inner, c.positions, c.filled,
            capacity, c.source, c.norm_first, c.activation, THREADS, structures.data(), states.data(), cache.data(), memory.data(),
            entries.data(), slots.data(), c.is_masked ? mask.data() : nullptr, c.rotates ? cosines.data() : nullptr,
            c.rotates ? sines.data() : nullptr, room.data(), own.data(), cross.data(),
            c.has_last ? last.structure() : Norm{}, 0.4f, 0.7f,
            {Index(sizeof(DecoderLayer)) * c.layers, bytes(states), bytes(cache), bytes(memory), bytes(entries),
             bytes(slots), bytes(mask), bytes(cosines), bytes(sines), bytes(room), bytes(own), bytes(cross)}};
  }
  Problem(const Problem&) = delete;

  /// Number of the first weight or score (`which`) of a head.
  Index place(Index which, Index layer, Index head, Index row, Index positions) const {
    const Index sentence = which * c.sentences + row / c.hypotheses;
    return (((sentence * c.layers + layer) * c.heads + head) * c.hypotheses + row % c.hypotheses) * positions;
  }

  /// First number of a slot; `which` counts the keys and the values of every layer.
  Index place(Index which, Index sentence, Index slot) const {
    return ((which * stored + entries[sentence]) * capacity + slot) * c.size;
  }
};

/// Numbers of the heads of one row in a layer.
struct Row {
  Index layer, row;
};

/// softmax(scale q k) v of every head over the visible positions; zeros without any. Write weights, and
/// scores of all positions; 0 for hidden positions, whose keys are NaN.
Numbers attended(const Problem& p, Row at, const Numbers& queries, const std::vector<Numbers>& keys,
                 const std::vector<Numbers>& values, const std::vector<bool>& visible, double scale,
                 Numbers& written) {
  Numbers context(p.c.size);
  const Index count = keys.size();
  for (Index head = 0; head < p.c.heads; ++head) {
    Numbers scores(count);
    double top = -INFINITY, whole = 0;
    for (Index j = 0; j < count; ++j) {
      if (!visible[j]) continue;
      for (Index d = head * p.part; d < (head + 1) * p.part; ++d) scores[j] += scale * queries[d] * keys[j][d];
      top = std::max(top, scores[j]);
    }
    for (Index j = 0; j < count; ++j) whole += visible[j] ? std::exp(scores[j] - top) : 0;
    for (Index j = 0; j < count; ++j) {
      const double weight = visible[j] ? std::exp(scores[j] - top) / whole : 0;
      written[p.place(0, at.layer, head, at.row, count) + j] = weight;
      written[p.place(1, at.layer, head, at.row, count) + j] = scores[j];
      if (!visible[j]) continue;
      for (Index d = head * p.part; d < (head + 1) * p.part; ++d) context[d] += weight * values[j][d];
    }
  }
  return context;
}

void rotate(const Problem& p, double* vector) {
  for (Index i = 0; p.c.rotates && i < p.c.size; i += 2) {
    const Index at = i % p.part;
    const double even = vector[i], odd = vector[i + 1];
    vector[i] = even * p.cosines[at] - odd * p.sines[at];
    vector[i + 1] = odd * p.cosines[at + 1] + even * p.sines[at + 1];
  }
}

std::vector<Numbers> vectors(const Numbers& from, const std::vector<Index>& places, Index size) {
  std::vector<Numbers> found;
  for (Index place : places) found.emplace_back(from.begin() + place, from.begin() + place + size);
  return found;
}

/// States, cache, weights and scores after a step.
struct Right {
  std::vector<Numbers> states;
  Numbers cache, own, cross;

  explicit Right(const Problem& p)
      : cache(p.cache.begin(), p.cache.end()), own(p.own.size()), cross(p.cross.size()) {
    const Index size = p.c.size;
    for (Index row = 0; row < p.rows; ++row)
      states.emplace_back(p.states.begin() + row * size, p.states.begin() + (row + 1) * size);
    for (Index i = 0; i < p.c.layers; ++i) add(p, p.layers[i], i);
    if (p.c.has_last)
      for (Numbers& state : states) state = p.last(state);
  }

 private:
  void add(const Problem& p, const Layer& layer, Index number) {
    const Index size = p.c.size;
    const auto before = [&](const LayerNorm& norm, const Numbers& x) { return p.c.norm_first ? norm(x) : x; };
    const auto after = [&](const LayerNorm& norm, const Numbers& x) { return p.c.norm_first ? x : norm(x); };
    std::vector<Numbers> queries;
    for (Index row = 0; row < p.rows; ++row) {
      Numbers projected = layer.projection(before(layer.self_norm, states[row]));
      rotate(p, projected.data());
      rotate(p, projected.data() + size);
      for (Index which = 0; which < 2; ++which)
        std::copy_n(projected.begin() + (1 + which) * size, size,
                    cache.begin() + p.place(2 * number + which, row / p.c.hypotheses,
                                            p.c.filled + row % p.c.hypotheses));
      queries.push_back(projected);
    }
    const Numbers memory(p.memory.begin(), p.memory.end());
    for (Index row = 0; row < p.rows; ++row) {
      const Index sentence = row / p.c.hypotheses;
      std::vector<Index> at[4];  // keys and values of the tokens, then of the source
      for (Index which = 0; which < 2; ++which) {
        for (Index j = 0; j < p.c.positions; ++j)
          at[which].push_back(p.place(2 * number + which, sentence, p.slots[row * p.c.positions + j]));
        const Index first = ((2 * number + which) * p.stored + p.entries[sentence]) * p.c.source;
        for (Index j = first; j < first + p.c.source; ++j) at[2 + which].push_back(j * size);
      }
      const std::vector<bool> all(p.c.positions, true);
      std::vector<bool> visible(p.c.source, true);
      for (Index j = 0; p.c.is_masked && j < p.c.source; ++j) visible[j] = p.mask[p.entries[sentence] * p.c.source + j];
      Numbers& state = states[row];
      const Numbers self = attended(p, {number, row}, queries[row], vectors(cache, at[0], size),
                                    vectors(cache, at[1], size), all, p.step.self_scale, own);
      state = after(layer.self_norm, sum(state, layer.self_output(self)));
      const Numbers source =
          attended(p, {number, row}, layer.query(before(layer.cross_norm, state)), vectors(memory, at[2], size),
                   vectors(memory, at[3], size), visible, p.step.cross_scale, cross);
      state = after(layer.cross_norm, sum(state, layer.cross_output(source)));
      Numbers hidden = layer.inner(before(layer.feed_forward_norm, state));
      for (double& number : hidden) number = activated(number, p.c.activation);
      state = after(layer.feed_forward_norm, sum(state, layer.outer(hidden)));
    }
  }
};

int run(const DecoderStep& step) { return regard_decoder_step(&step); }

/// Refuse a step in which the number of multiplications of a product exceeds an Index, though each array has a
/// possible size.
void must_refuse_many_multiplications(const DecoderStep& right) {
  std::vector<Index> numbers(16);
  DecoderLayer layer = right.layer[0];
  DecoderStep wrong = right;
  wrong.sentences = Index(numbers.size());
  wrong.hypotheses = wrong.layers = wrong.heads = wrong.stored = wrong.positions = wrong.capacity = 1;
  wrong.filled = wrong.source = 0;
  wrong.size = wrong.inner = Index(1) << 29;
  wrong.layer = &layer;
  wrong.entries = wrong.slots = numbers.data();
  wrong.cosines = wrong.sines = nullptr;
  wrong.last = {};
  for (Index& size : wrong.bytes) size = INT64_MAX;
  for (Packed DecoderLayer::*weight :
       {&DecoderLayer::projection, &DecoderLayer::self_output, &DecoderLayer::query, &DecoderLayer::cross_output,
        &DecoderLayer::inner, &DecoderLayer::outer}) {
    Packed& claimed = layer.*weight;
    claimed.columns = weight == &DecoderLayer::projection ? 3 * wrong.size : wrong.size;
    claimed.inner = wrong.size;
    claimed.bytes[0] = claimed.bytes[2] = INT64_MAX;
  }
  for (Norm DecoderLayer::*norm :
       {&DecoderLayer::self_norm, &DecoderLayer::cross_norm, &DecoderLayer::feed_forward_norm})
    (layer.*norm).bytes[0] = (layer.*norm).bytes[1] = INT64_MAX;
  must_refuse(run(wrong));
}

void must_refuse_wrong_arrays(Problem& p) {
  const DecoderStep right = p.step;
  must_refuse_wrong(right,
                    {&DecoderStep::sentences, &DecoderStep::stored, &DecoderStep::hypotheses, &DecoderStep::layers, &DecoderStep::heads,
                     &DecoderStep::size, &DecoderStep::inner, &DecoderStep::positions, &DecoderStep::filled,
                     &DecoderStep::capacity, &DecoderStep::source},
                    run);
  for (Index value : {Index(-1), Index(4), INT64_MAX}) {
    DecoderStep wrong = right;
    wrong.activation = value;
    must_refuse(run(wrong));
  }
  for (Index value : {Index(-1), p.capacity, INT64_MAX, INT64_MIN})
    for (std::size_t i : {std::size_t(0), p.slots.size() - 1}) {
      const Index slot = p.slots[i];
      p.slots[i] = value;
      must_refuse(run(right));
      p.slots[i] = slot;
    }
  for (Index value : {Index(-1), p.stored, INT64_MAX}) {
    const Index entry = p.entries.back();
    p.entries.back() = value;
    must_refuse(run(right));
    p.entries.back() = entry;
  }
  for (Packed DecoderLayer::*weight :
       {&DecoderLayer::projection, &DecoderLayer::self_output, &DecoderLayer::query, &DecoderLayer::cross_output,
        &DecoderLayer::inner, &DecoderLayer::outer})
    must_refuse_wrong_weight(p.structures.back().*weight, [&](const Packed& wrong) {
      const Packed saved = p.structures.back().*weight;
      p.structures.back().*weight = wrong;
      const int status = run(right);
      p.structures.back().*weight = saved;
      return status;
    });
  for (Norm DecoderLayer::*norm :
       {&DecoderLayer::self_norm, &DecoderLayer::cross_norm, &DecoderLayer::feed_forward_norm})
    must_refuse_wrong_norm(p.structures.back().*norm, [&] { return run(right); });
  must_refuse_many_multiplications(right);
  DecoderStep wrong = right;
  wrong.last = {p.last.weight.data(), nullptr, 0, {bytes(p.last.weight), 0}};
  must_refuse(run(wrong));
  wrong = right;
  wrong.sines = wrong.sines ? nullptr : p.states.data();
  wrong.bytes[8] = bytes(p.states);
  must_refuse(run(wrong));
  if (p.part % 2) {
    wrong.cosines = p.states.data();
    wrong.bytes[7] = bytes(p.states);
    must_refuse(run(wrong));
  }
}

/// Sizes that are wrong where other sizes are zero, so that no array is needed.
void must_refuse_wrong_empty(const DecoderStep& right) {
  for (Index DecoderStep::*size :
       {&DecoderStep::sentences, &DecoderStep::stored, &DecoderStep::hypotheses, &DecoderStep::layers, &DecoderStep::heads,
        &DecoderStep::size, &DecoderStep::inner, &DecoderStep::positions, &DecoderStep::filled,
        &DecoderStep::capacity, &DecoderStep::source})
    for (Index value : WRONG) {
      DecoderStep wrong = right;
      wrong.*size = value;
      must_refuse(run(wrong));
    }
  DecoderStep wrong = right;
  wrong.layers += 1;
  must_refuse(run(wrong));
  wrong = right;
  wrong.size = 0;
  must_refuse(run(wrong));
}

void check(const Case& c, Random& random) {
  Problem p(c, random);
  const Right right(p);
  const std::vector<float> before = p.states, cache = p.cache;
  must_run(run(p.step));
  Numbers states;
  for (const Numbers& state : right.states) states.insert(states.end(), state.begin(), state.end());
  compare("features of a step", p.states, states, 2e-4);
  compare("weights and scores of the tokens", p.own, right.own, 1e-3);
  compare("weights and scores of the source", p.cross, right.cross, 1e-3);
  for (std::size_t i = 0; i < cache.size(); ++i) {
    const Index slot = Index(i) / c.size, entry = slot / p.capacity % p.stored;
    const bool is_new = slot % p.capacity >= c.filled && entry >= 1 && entry <= c.sentences;
    must(is_new || are_equal(&cache[i], &p.cache[i], 1), "a step changes an earlier slot, or that of another sentence");
    must(!is_new || std::fabs(p.cache[i] - right.cache[i]) <= 2e-4 * (1 + std::fabs(right.cache[i])),
         "a step writes a wrong key or value");
  }
  const std::vector<float> result = p.states;
  p.states = before;
  const DecoderStep with_weights = p.step;
  p.step.threads = 1;
  p.step.own = p.step.cross = nullptr;
  must_run(run(p.step));
  must(are_equal(result.data(), p.states.data(), result.size()),
       "a step on one thread, without weights, differs from that on several");
  p.step = with_weights;
  if (p.rows > 1 && c.layers > 0 && c.source > 0) must_refuse_wrong_arrays(p);
  if (p.rows == 0) must_refuse_wrong_empty(p.step);
}

}  // namespace

int check_steps(Random& random) {
  std::vector<Case> cases;
  for (Index norm_first : {0, 1})
    for (Index activation : {NONE, RELU, GELU})
      for (bool rotates : {false, true})
        for (bool is_masked : {false, true})
          cases.push_back({3, 2, 2, 3, rotates ? 18 : 15, 11, 5, 7, 19, norm_first, activation, is_masked, rotates,
                           norm_first == 1});
  for (Index size : ODD_SIZES) cases.push_back({2, 3, 1, 1, size, size, 17, 37, 17, 1, GELU, true, false, true});
  for (Index hypotheses : {0, 1, 5})
    for (Index sentences : {0, 1, 2})
      for (Index source : {0, 5})
        cases.push_back({sentences, hypotheses, 1, 2, 28, 7, 1, 0, source, 0, RELU, false, true, false});
  cases.push_back({2, 3, 0, 1, 7, 5, 3, 4, 5, 1, RELU, false, false, true});
  cases.push_back({3, 10, 2, 4, 136, 99, 301, 307, 293, 1, GELU, true, true, true});  // for threads
  cases.push_back({2, 3, 1, 1, 149, 7, 17, 37, 17, 1, RELU, true, false, true});  // values in groups of vectors
  for (const Case& each : cases) check(each, random);
  return int(cases.size());
}
