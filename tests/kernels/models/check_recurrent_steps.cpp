// Steps of a recurrent decoder, against loops in double precision.
#include <algorithm>
#include <deque>

#include "packed_linear.hpp"

namespace {

using Numbers = std::vector<double>;

struct Case {
  Index sentences, hypotheses, layers, size, embedding, source, key, value, features, kind;
  bool attends_first;
  Index query_layer, output, feeds;
  bool is_additive, is_masked;
  Index powers;  // of the keys: 0 for none, 1, or 2 for split powers
  double largeness = 1;  // of the keys
};

struct Layer {
  PackedLinear input, recurrent;

  Layer(Index gates, Index inputs, Index size, Random& random)
      : input(gates, inputs, true, random), recurrent(gates, size, true, random) {}
};

Index combined_inputs(const Case& c) {
  return c.output < TANH_OUTPUT ? 0 : c.size + c.value + (c.output == DEEP_OUTPUT ? c.embedding : 0);
}

Index combined_columns(const Case& c) { return c.output == DEEP_OUTPUT ? 2 * c.features : c.features; }

/// A step with its arrays.
struct Problem {
  Case c;
  Index rows, stored, last_rows, words = 11, gates, fed_size;
  std::deque<Layer> layers;
  PackedLinear query, combined;
  std::vector<RecurrentLayer> structures;
  std::vector<float> vector, embeddings, keys, values, powers, last_hidden, last_cell, last_fed;
  std::vector<float> hidden, cell, context, result, weights, scores;
  std::vector<Index> tokens, entries, parents;
  std::vector<std::uint8_t> mask;
  RecurrentStep step;

  Problem(const Case& c, Random& random)
      : c(c), rows(c.sentences * c.hypotheses), stored(c.sentences + 2), last_rows(rows + 1),
        gates((c.kind == ELMAN ? 1 : c.kind == GRU ? 3 : 4) * c.size),
        fed_size(c.feeds == CONTEXT_FED ? c.value : c.feeds == FEATURES_FED ? c.features : 0),
        query(c.is_additive ? c.key : 1, c.size, false, random),
        combined(combined_columns(c), combined_inputs(c), true, random), vector(drawn<float>(random, c.key)),
        embeddings(drawn<float>(random, words * c.embedding)),
        keys(drawn<float>(random, stored * c.source * c.key, c.largeness)), values(drawn<float>(random, stored * c.source * c.value)),
        last_hidden(drawn<float>(random, c.layers * last_rows * c.size, 0.5)),
        last_cell(drawn<float>(random, c.kind == LSTM ? c.layers * last_rows * c.size : 0)),
        last_fed(drawn<float>(random, last_rows * fed_size)), hidden(unknown<float>(c.layers * rows * c.size)),
        cell(unknown<float>(c.kind == LSTM ? c.layers * rows * c.size : 0)), context(unknown<float>(rows * c.value)),
        result(unknown<float>(rows * c.features)), weights(unknown<float>(rows * c.source)),
        scores(unknown<float>(rows * c.source)), tokens(rows), entries(c.sentences), parents(rows),
        mask(c.is_masked ? stored * c.source : 0) {
    const Index inputs = c.embedding + (c.attends_first ? c.value : fed_size);
    for (Index i = 0; i < c.layers; ++i) layers.emplace_back(gates, i ? c.size : inputs, c.size, random);
    for (const Layer& layer : layers) structures.push_back({layer.input.packed, layer.recurrent.packed});
    for (Index i = 0; i < c.sentences; ++i) entries[i] = c.sentences - i;  // neither first nor last
    for (Index i = 0; i < rows; ++i) tokens[i] = Index(random() % words), parents[i] = Index(random() % last_rows);
    for (std::size_t i = 0; i < mask.size(); ++i)  // the last sentence has no visible position
      mask[i] = Index(i) / c.source != 1 && random() % 3 != 0;
    for (std::size_t i = 0; c.powers && i < keys.size(); ++i) {
      const double exponent = c.powers == 2 ? std::round(2.885390082 * keys[i]) : 0;
      powers.push_back(float(std::exp(2.0 * keys[i] - exponent * 0.6931471806)));
      if (c.powers == 2 && Index(i + 1) % c.key == 0) {
        for (Index d = c.key - 1; d >= 0; --d) powers.push_back(float(std::round(2.885390082 * keys[i - d])));
      }
    }
    step = {c.sentences, stored, c.hypotheses, last_rows, c.layers, c.size, c.embedding, words, c.source, c.key,
            c.value, c.features, c.kind, c.attends_first, c.query_layer, c.output, c.feeds, c.is_additive,
            c.powers == 2, THREADS, structures.data(), query.packed, combined.packed, vector.data(), embeddings.data(),
            tokens.data(), entries.data(), parents.data(), keys.data(), values.data(),
            c.powers ? powers.data() : nullptr, c.is_masked ? mask.data() : nullptr, last_hidden.data(),
            last_cell.data(), last_fed.data(), hidden.data(), cell.data(), context.data(), result.data(),
            weights.data(), scores.data(), 0.7f,
            {Index(sizeof(RecurrentLayer)) * c.layers, c.is_additive ? bytes(vector) : 0, bytes(embeddings),
             bytes(tokens), bytes(entries), bytes(parents), bytes(keys), bytes(values), bytes(powers), bytes(mask),
             bytes(last_hidden), bytes(last_cell), bytes(last_fed), bytes(hidden), bytes(cell), bytes(context),
             bytes(result), bytes(weights), bytes(scores)}};
  }
  Problem(const Problem&) = delete;
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Row `number` of an array.
Numbers vector_of(const std::vector<float>& from, Index number, Index size) {
  return Numbers(from.begin() + number * size, from.begin() + (number + 1) * size);
}

Numbers joined(std::initializer_list<Numbers> parts) {
  Numbers all;
  for (const Numbers& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void append(Numbers& all, const Numbers& more) { all.insert(all.end(), more.begin(), more.end()); }

/// The results of a step.
struct Right {
  Numbers context, result, weights, scores;
  std::vector<Numbers> hidden, cell;  // of each layer

  explicit Right(const Problem& p) : hidden(p.c.layers), cell(p.c.layers) {
    for (Index row = 0; row < p.rows; ++row) compute(p, row);
  }

  void compute(const Problem& p, Index row) {
    const Case& c = p.c;
    const Index parent = p.parents[row];
    std::vector<Numbers> states;
    for (Index i = 0; i < c.layers; ++i) states.push_back(vector_of(p.last_hidden, i * p.last_rows + parent, c.size));
    const Numbers token = vector_of(p.embeddings, p.tokens[row], c.embedding);
    Numbers mixed = c.attends_first ? attended(p, row, states[c.query_layer]) : Numbers();
    Numbers below = joined({token, c.attends_first ? mixed : vector_of(p.last_fed, parent, p.fed_size)});
    for (Index i = 0; i < c.layers; ++i) {
      const Numbers last = c.kind == LSTM ? vector_of(p.last_cell, i * p.last_rows + parent, c.size) : Numbers();
      below = states[i] = updated(p, i, below, states[i], last);
      append(hidden[i], below);
    }
    if (!c.attends_first) mixed = attended(p, row, states[c.query_layer]);
    append(context, mixed);
    append(result, features(p, below, mixed, token));
  }

  Numbers updated(const Problem& p, Index layer, const Numbers& x, const Numbers& h, const Numbers& last) {
    const Index size = p.c.size;
    const Numbers a = p.layers[layer].input(x), u = p.layers[layer].recurrent(h);
    Numbers state(size);
    for (Index d = 0; d < size; ++d) {
      const auto sum = [&](Index gate) { return a[gate * size + d] + u[gate * size + d]; };
      if (p.c.kind == ELMAN) state[d] = std::tanh(sum(0));
      if (p.c.kind == GRU) {
        const double fresh = std::tanh(a[2 * size + d] + logistic(sum(0)) * u[2 * size + d]);
        state[d] = fresh + logistic(sum(1)) * (h[d] - fresh);
      }
      if (p.c.kind == LSTM) {
        const double now = logistic(sum(1)) * last[d] + logistic(sum(0)) * std::tanh(sum(2));
        cell[layer].push_back(now);
        state[d] = logistic(sum(3)) * std::tanh(now);
      }
    }
    return state;
  }

  Numbers attended(const Problem& p, Index row, const Numbers& state) {
    const Case& c = p.c;
    const Index first = p.entries[row / c.hypotheses] * c.source;
    const Numbers query = c.is_additive ? p.query(state) : state;
    Numbers raw(c.source), share(c.source), mixed(c.value);
    double top = -INFINITY, total = 0;
    for (Index j = 0; j < c.source; ++j) {
      const Numbers key = vector_of(p.keys, first + j, c.key);
      for (Index d = 0; d < c.key; ++d)
        raw[j] += c.is_additive ? p.vector[d] * std::tanh(query[d] + key[d]) : p.step.scale * query[d] * key[d];
      if (!c.is_masked || p.mask[first + j]) top = std::max(top, (c.is_additive ? p.step.scale : 1) * raw[j]);
    }
    for (Index j = 0; j < c.source; ++j) {
      const bool visible = !c.is_masked || p.mask[first + j];
      share[j] = visible ? std::exp((c.is_additive ? p.step.scale : 1) * raw[j] - top) : 0;
      total += share[j];
    }
    for (Index j = 0; j < c.source; ++j) {
      share[j] = total ? share[j] / total : 0;
      const Numbers value = vector_of(p.values, first + j, c.value);
      for (Index d = 0; d < c.value; ++d) mixed[d] += share[j] * value[d];
    }
    append(scores, raw);
    append(weights, share);
    return mixed;
  }

  static Numbers features(const Problem& p, const Numbers& state, const Numbers& context, const Numbers& token) {
    if (p.c.output == STATE_OUTPUT) return state;
    if (p.c.output == LINEAR_OUTPUT) return joined({context, state});
    if (p.c.output == TANH_OUTPUT) {
      Numbers y = p.combined(joined({context, state}));
      for (double& number : y) number = std::tanh(number);
      return y;
    }
    if (p.c.output == DEEP_OUTPUT) {
      const Numbers pairs = p.combined(joined({state, token, context}));
      Numbers y(p.c.features);
      for (Index d = 0; d < p.c.features; ++d) y[d] = std::max(pairs[2 * d], pairs[2 * d + 1]);
      return y;
    }
    Numbers y = p.combined(joined({state, context}));
    for (Index d = 0; d < p.c.features; ++d) y[d] += token[d];
    return y;
  }
};

int run(const RecurrentStep& step) { return regard_recurrent_step(&step); }

/// Refuse a step in which the number of multiplications exceeds an Index, though each array has a possible
/// size. `set` changes the sizes. Arrays that are read before the step is refused have 16 rows.
template <typename Set>
void must_refuse_many_multiplications(const RecurrentStep& right, const Set& set) {
  std::vector<Index> numbers(16);
  RecurrentLayer layer = right.layer[0];
  RecurrentStep wrong = right;
  wrong.sentences = Index(numbers.size());
  wrong.hypotheses = wrong.layers = wrong.stored = wrong.last_rows = wrong.words = 1;
  wrong.query_layer = 0;
  wrong.output = STATE_OUTPUT;
  wrong.feeds = NOTHING_FED;
  wrong.layer = &layer;
  wrong.tokens = wrong.entries = wrong.parents = numbers.data();
  for (Index& size : wrong.bytes) size = INT64_MAX;
  set(wrong);
  wrong.features = wrong.size;
  const Index gates = NUM_GATES[wrong.kind] * wrong.size;
  const auto claim = [](Packed& weight, Index columns, Index inner) {
    weight.columns = columns;
    weight.inner = inner;
    weight.bytes[0] = weight.bytes[2] = INT64_MAX;
  };
  claim(layer.input, gates, wrong.embedding + (wrong.attends_first ? wrong.value : 0));
  claim(layer.recurrent, gates, wrong.size);
  claim(wrong.query, wrong.key, wrong.size);
  must_refuse(run(wrong));
}

void must_refuse_overflow(const Problem& p) {
  must_refuse_many_multiplications(p.step, [](RecurrentStep& wrong) {  // of a product
    wrong.size = wrong.key = (Index(1) << 29) - 1;
  });
  if (p.c.is_additive)
    must_refuse_many_multiplications(p.step, [](RecurrentStep& wrong) {  // of attention
      wrong.source = wrong.key = wrong.value = Index(1) << 30;
      wrong.is_split = 0;
    });
}

void must_refuse_wrong_arrays(Problem& p) {
  const RecurrentStep right = p.step;
  must_refuse_wrong(right,
                    {&RecurrentStep::sentences, &RecurrentStep::stored, &RecurrentStep::hypotheses,
                     &RecurrentStep::last_rows, &RecurrentStep::layers, &RecurrentStep::size,
                     &RecurrentStep::embedding, &RecurrentStep::words, &RecurrentStep::source, &RecurrentStep::key,
                     &RecurrentStep::value, &RecurrentStep::features},
                    run);
  for (Index RecurrentStep::*choice : {&RecurrentStep::kind, &RecurrentStep::output, &RecurrentStep::feeds,
                                       &RecurrentStep::query_layer})
    for (Index value : {Index(-1), Index(5), INT64_MAX}) {
      RecurrentStep wrong = right;
      wrong.*choice = value;
      must_refuse(run(wrong));
    }
  const auto refuse_number = [&](std::vector<Index>& numbers, Index end) {
    for (Index value : {Index(-1), end, INT64_MAX, INT64_MIN}) {
      const Index saved = numbers.back();
      numbers.back() = value;
      must_refuse(run(right));
      numbers.back() = saved;
    }
  };
  refuse_number(p.tokens, p.words);
  refuse_number(p.entries, p.stored);
  refuse_number(p.parents, p.last_rows);
  must_refuse_overflow(p);
  for (Packed RecurrentLayer::*weight : {&RecurrentLayer::input, &RecurrentLayer::recurrent})
    must_refuse_wrong_weight(p.structures.back().*weight, [&](const Packed& wrong) {
      const Packed saved = p.structures.back().*weight;
      p.structures.back().*weight = wrong;
      const int status = run(right);
      p.structures.back().*weight = saved;
      return status;
    });
  for (Packed RecurrentStep::*weight : {&RecurrentStep::query, &RecurrentStep::combined}) {
    const bool is_read = weight == &RecurrentStep::query ? p.c.is_additive : p.c.output >= TANH_OUTPUT;
    if (is_read)
      must_refuse_wrong_weight(right.*weight, [&](const Packed& packed) {
        RecurrentStep wrong = right;
        wrong.*weight = packed;
        return run(wrong);
      });
  }
}

void check(const Case& c, Random& random) {
  Problem p(c, random);
  const Right right(p);
  must_run(run(p.step));
  Numbers hidden, cell;
  for (const Numbers& layer : right.hidden) append(hidden, layer);
  for (const Numbers& layer : right.cell) append(cell, layer);
  compare("hidden states of a step", p.hidden, hidden, 2e-4);
  compare("cells of a step", p.cell, cell, 2e-4);
  compare("contexts of a step", p.context, right.context, 2e-4);
  compare("features of a recurrent step", p.result, right.result, 2e-4);
  compare("weights of a recurrent step", p.weights, right.weights, 2e-4);
  compare("scores of a recurrent step", p.scores, right.scores, 2e-4);
  const std::vector<float> result = p.result;
  const RecurrentStep with_weights = p.step;
  p.step.threads = 1;
  p.step.weights = p.step.scores = nullptr;
  must_run(run(p.step));
  must(are_equal(result.data(), p.result.data(), result.size()),
       "a recurrent step on one thread, without weights, differs from that on several");
  p.step = with_weights;
  if (p.rows > 1 && c.source > 0) must_refuse_wrong_arrays(p);
}

}  // namespace

int check_recurrent_steps(Random& random) {
  std::vector<Case> cases;
  for (bool first : {false, true})
    for (Index kind : {ELMAN, GRU, LSTM})
      for (bool additive : {false, true})
        for (bool masked : {false, true})
          cases.push_back({3, 2, 2, 13, 5, 7, additive ? 11 : 13, 17, 19, kind, first, 1, TANH_OUTPUT,
                           first ? NOTHING_FED : FEATURES_FED, additive, masked, additive ? 1 : 0});
  for (Index output : {STATE_OUTPUT, LINEAR_OUTPUT, DEEP_OUTPUT, SUMMED_OUTPUT})
    for (Index feeds : {NOTHING_FED, CONTEXT_FED, FEATURES_FED}) {
      const Index features[] = {7, 10, 0, 11, 5};
      cases.push_back({2, 3, 1, 7, 5, 4, 7, 3, features[output], LSTM, false, 0, output, feeds, false, true, 0});
    }
  for (Index powers : {0, 1, 2})
    cases.push_back({2, 5, 1, 7, 5, 19, 23, 3, 11, GRU, true, 0, DEEP_OUTPUT, NOTHING_FED, true, true, powers});
  for (double largeness : {20.0, 60.0, 300.0})  // keys that are out of range, without powers
    cases.push_back({2, 5, 1, 7, 5, 19, 256, 3, 11, GRU, true, 0, DEEP_OUTPUT, NOTHING_FED, true, true, 0, largeness});
  for (Index size : ODD_SIZES)
    cases.push_back({2, 9, 1, size, size, 37, size, size, size, LSTM, false, 0, TANH_OUTPUT, CONTEXT_FED, false, false, 0});
  for (Index hypotheses : {0, 1, 5})
    for (Index sentences : {0, 1, 2})
      for (Index source : {0, 5})
        for (bool additive : {false, true})
          cases.push_back({sentences, hypotheses, 1, 7, 3, source, 7, 5, 11, LSTM, additive, 0, TANH_OUTPUT,
                           NOTHING_FED, additive, true, 0});
  for (bool additive : {false, true})  // for threads
    cases.push_back({5, 10, 1, 136, 99, 301, 136, 99, 111, LSTM, false, 0, TANH_OUTPUT, NOTHING_FED, additive, true, 0});
  for (const Case& each : cases) check(each, random);
  return int(cases.size());
}
