// The layers of a Transformer's encoder, against loops in double precision.
#include <algorithm>
#include <deque>

#include "models/layer_norm.hpp"
#include "packed_linear.hpp"

namespace {

struct Case {
  Index sentences, source, layers, heads, size, inner, norm_first, activation;
  bool is_masked, rotates, has_last;
};

struct Layer {
  PackedLinear projection, output, inner, outer;
  LayerNorm self_norm, feed_forward_norm;

  Layer(Index size, Index hidden, Random& random)
      : projection(3 * size, size, true, random), output(size, size, false, random),
        inner(hidden, size, true, random), outer(size, hidden, true, random), self_norm(size, random),
        feed_forward_norm(size, random) {}

  EncoderLayer structure() const {
    return {projection.packed, output.packed, inner.packed, outer.packed, self_norm.structure(),
            feed_forward_norm.structure()};
  }
};

/// A batch with its arrays. Embeddings of padding are NaN.
struct Problem {
  Case c;
  Index part;
  std::deque<Layer> layers;
  LayerNorm last;
  std::vector<EncoderLayer> structures;
  std::vector<float> embedded, cosines, sines, states;
  std::vector<std::uint8_t> mask;
  EncoderPass pass;

  Problem(const Case& c, Random& random)
      : c(c), part(c.size / c.heads), last(c.size, random),
        embedded(drawn<float>(random, c.sentences * c.source * c.size)), cosines(c.rotates ? c.source * part : 0),
        sines(cosines.size()), states(unknown<float>(c.layers * c.sentences * c.source * c.size)),
        mask(c.is_masked ? c.sentences * c.source : 0) {
    for (Index i = 0; i < c.layers; ++i) layers.emplace_back(c.size, c.inner, random);
    for (const Layer& layer : layers) structures.push_back(layer.structure());
    for (std::size_t i = 0; i < cosines.size(); ++i) {  // a pair has one angle
      const double angle = double(i / part) * (1 + i % part / 2);
      cosines[i] = float(std::cos(angle));
      sines[i] = float(std::sin(angle));
    }
    for (std::size_t i = 0; i < mask.size(); ++i) {  // the first sentence is full, the second empty
      const Index sentence = Index(i) / c.source, place = Index(i) % c.source;
      mask[i] = sentence == 0 || (sentence > 1 && place < c.source - sentence && random() % 9 != 0);
      if (!mask[i]) std::fill_n(embedded.begin() + i * c.size, c.size, NAN);
    }
    pass = {c.sentences, c.source, c.layers, c.heads, c.size, c.inner, c.norm_first, c.activation, THREADS,
            structures.data(), embedded.data(), c.is_masked ? mask.data() : nullptr,
            c.rotates ? cosines.data() : nullptr, c.rotates ? sines.data() : nullptr, states.data(),
            c.has_last ? last.structure() : Norm{}, 0.4f,
            {Index(sizeof(EncoderLayer)) * c.layers, bytes(embedded), bytes(mask), bytes(cosines), bytes(sines),
             bytes(states)}};
  }
  Problem(const Problem&) = delete;

  bool is_real(Index sentence, Index place) const { return !c.is_masked || mask[sentence * c.source + place]; }
};

void rotate(const Problem& p, Index place, double* vector) {
  for (Index i = 0; p.c.rotates && i < p.c.size; i += 2) {
    const Index at = place * p.part + i % p.part;
    const double even = vector[i], odd = vector[i + 1];
    vector[i] = even * p.cosines[at] - odd * p.sines[at];
    vector[i + 1] = odd * p.cosines[at + 1] + even * p.sines[at + 1];
  }
}

/// softmax(scale q k) v of every head of one position. The projections have queries, keys and values.
Numbers attended(const Problem& p, const Numbers& query, const std::vector<Numbers>& projections) {
  const Index size = p.c.size;
  Numbers context(size), scores(projections.size());
  for (Index first = 0; first < size; first += p.part) {
    double top = -INFINITY, whole = 0;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      scores[j] = 0;
      for (Index d = first; d < first + p.part; ++d) scores[j] += p.pass.scale * query[d] * projections[j][size + d];
      top = std::max(top, scores[j]);
    }
    for (double score : scores) whole += std::exp(score - top);
    for (std::size_t j = 0; j < scores.size(); ++j)
      for (Index d = first; d < first + p.part; ++d)
        context[d] += std::exp(scores[j] - top) / whole * projections[j][2 * size + d];
  }
  return context;
}

/// Compute a layer in place.
void apply(const Problem& p, const Layer& layer, const std::vector<Index>& places, std::vector<Numbers>& states) {
  const auto before = [&](const LayerNorm& norm, const Numbers& x) { return p.c.norm_first ? norm(x) : x; };
  const auto after = [&](const LayerNorm& norm, const Numbers& x) { return p.c.norm_first ? x : norm(x); };
  std::vector<Numbers> projections;
  for (std::size_t row = 0; row < states.size(); ++row) {
    projections.push_back(layer.projection(before(layer.self_norm, states[row])));
    rotate(p, places[row], projections.back().data());
    rotate(p, places[row], projections.back().data() + p.c.size);
  }
  for (std::size_t row = 0; row < states.size(); ++row) {
    Numbers& state = states[row];
    state = after(layer.self_norm, sum(state, layer.output(attended(p, projections[row], projections))));
    Numbers hidden = layer.inner(before(layer.feed_forward_norm, state));
    for (double& number : hidden) number = activated(number, p.c.activation);
    state = after(layer.feed_forward_norm, sum(state, layer.outer(hidden)));
  }
}

/// States of all layers; zeros at padding.
Numbers right_states(const Problem& p) {
  Numbers right(p.states.size());
  const Index size = p.c.size, of_layer = p.c.sentences * p.c.source * size;
  for (Index sentence = 0; sentence < p.c.sentences; ++sentence) {
    std::vector<Numbers> states;
    std::vector<Index> places;
    for (Index place = 0; place < p.c.source; ++place) {
      if (!p.is_real(sentence, place)) continue;
      const auto from = p.embedded.begin() + (sentence * p.c.source + place) * size;
      states.emplace_back(from, from + size);
      places.push_back(place);
    }
    for (Index i = 0; i < p.c.layers; ++i) {
      apply(p, p.layers[i], places, states);
      for (std::size_t row = 0; row < states.size(); ++row) {
        const Numbers state = p.c.has_last && i + 1 == p.c.layers ? p.last(states[row]) : states[row];
        const Index to = i * of_layer + (sentence * p.c.source + places[row]) * size;
        std::copy(state.begin(), state.end(), right.begin() + to);
      }
    }
  }
  return right;
}

int run(const EncoderPass& pass) { return regard_encode(&pass); }

void must_refuse_wrong_arrays(Problem& p) {
  const EncoderPass right = p.pass;
  must_refuse_wrong(right,
                    {&EncoderPass::sentences, &EncoderPass::source, &EncoderPass::layers, &EncoderPass::heads,
                     &EncoderPass::size, &EncoderPass::inner},
                    run);
  EncoderPass wrong = right;
  for (Index value : {Index(-1), Index(4), INT64_MAX}) {
    wrong.activation = value;
    must_refuse(run(wrong));
  }
  for (Packed EncoderLayer::*weight :
       {&EncoderLayer::projection, &EncoderLayer::output, &EncoderLayer::inner, &EncoderLayer::outer})
    must_refuse_wrong_weight(p.structures.back().*weight, [&](const Packed& packed) {
      const Packed saved = p.structures.back().*weight;
      p.structures.back().*weight = packed;
      const int status = run(right);
      p.structures.back().*weight = saved;
      return status;
    });
  for (Norm EncoderLayer::*norm : {&EncoderLayer::self_norm, &EncoderLayer::feed_forward_norm})
    must_refuse_wrong_norm(p.structures.back().*norm, [&] { return run(right); });
  wrong = right;
  wrong.last = {p.last.weight.data(), nullptr, 0, {bytes(p.last.weight), 0}};
  must_refuse(run(wrong));
  wrong = right;
  wrong.sines = wrong.sines ? nullptr : p.embedded.data();
  wrong.bytes[4] = bytes(p.embedded);
  must_refuse(run(wrong));
  if (p.part % 2) {  // numbers of a head that are no pairs
    wrong.cosines = p.embedded.data();
    wrong.bytes[3] = bytes(p.embedded);
    must_refuse(run(wrong));
  }
}

/// Sizes that are wrong where other sizes are zero, so that no array is needed.
void must_refuse_wrong_empty(const EncoderPass& right) {
  for (Index EncoderPass::*size : {&EncoderPass::sentences, &EncoderPass::source, &EncoderPass::layers,
                                   &EncoderPass::heads, &EncoderPass::size, &EncoderPass::inner})
    for (Index value : WRONG) {
      EncoderPass wrong = right;
      wrong.*size = value;
      must_refuse(run(wrong));
    }
}

/// Check that each sentence alone has the bits that it has in the batch.
void must_be_equal_alone(const Problem& p) {
  const Index numbers = p.c.source * p.c.size;
  for (Index sentence = 0; sentence < p.c.sentences; ++sentence) {
    std::vector<float> states = unknown<float>(p.c.layers * numbers);
    EncoderPass alone = p.pass;
    alone.sentences = 1;
    alone.embedded += sentence * numbers;
    alone.mask += alone.mask ? sentence * p.c.source : 0;
    alone.states = states.data();
    for (Index i : {1, 2}) alone.bytes[i] /= p.c.sentences;
    alone.bytes[5] = bytes(states);
    must_run(run(alone));
    for (Index i = 0; i < p.c.layers; ++i)
      must(are_equal(&states[i * numbers], &p.states[(i * p.c.sentences + sentence) * numbers], numbers),
           "a sentence alone differs from the sentence in a batch");
  }
}

void check(const Case& c, Random& random) {
  Problem p(c, random);
  must_run(run(p.pass));
  compare("states of an encoder", p.states, right_states(p), 1e-4);
  const std::vector<float> result = p.states;
  for (Index threads : {Index(1), Index(2), INT64_MAX}) {
    std::fill(p.states.begin(), p.states.end(), NAN);
    p.pass.threads = threads;
    must_run(run(p.pass));
    must(are_equal(result.data(), p.states.data(), result.size()), "an encoder depends on the number of threads");
  }
  if (c.sentences && c.source) must_be_equal_alone(p);
  if (c.sentences && c.source && c.layers) must_refuse_wrong_arrays(p);
  if (c.sentences == 0) must_refuse_wrong_empty(p.pass);
}

}  // namespace

int check_encoder(Random& random) {
  std::vector<Case> cases;
  for (Index norm_first : {0, 1})
    for (Index activation : {NONE, RELU, GELU})
      for (bool rotates : {false, true})
        for (bool is_masked : {false, true})
          cases.push_back({5, 13, 2, 3, rotates ? 18 : 15, 11, norm_first, activation, is_masked, rotates,
                           norm_first == 1});
  for (Index size : ODD_SIZES) cases.push_back({3, size, 1, 1, size, size, 1, GELU, true, false, true});
  for (Index sentences : {0, 1, 2})
    for (Index source : {0, 1, 5})
      for (Index layers : {0, 1}) cases.push_back({sentences, source, layers, 2, 28, 7, 0, RELU, true, true, false});
  cases.push_back({1, 301, 1, 4, 56, 99, 1, GELU, false, true, true});    // several tasks of queries; panels on threads
  cases.push_back({30, 33, 2, 4, 56, 99, 0, RELU, true, false, false});   // groups on threads
  cases.push_back({11, 150, 1, 2, 20, 230, 1, RELU, true, false, true});
  for (const Case& each : cases) check(each, random);
  return int(cases.size());
}
