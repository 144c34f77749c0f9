// A step of a recurrent decoder with attention, as in models/recurrent/decoders.py:
//
//   Bahdanau   c = attend(s')    s = RNN(s', [E y; c])
//   Luong      s = RNN(s', [E y; fed'])    c = attend(s)        features = output(s, c, E y)
//
// s' and fed' are those of the row that a hypothesis extends.
#include <cstring>

#include "attention/additive_plan.hpp"
#include "layers/multiply.hpp"
#include "models/recurrent_sizes.hpp"
#include "threads.hpp"

namespace {

/// Vectors of which one is copied to each row: that with the row's number, or with a number by row.
struct Vectors {
  const float* numbers;
  Index size;
  const Index* by_row;
};

/// Concatenate vectors: one of each argument for each row.
void join(std::initializer_list<Vectors> parts, Index rows, float* to) {
  for (Index row = 0; row < rows; ++row)
    for (const Vectors& part : parts) {
      if (part.size == 0) continue;
      const Index number = part.by_row ? part.by_row[row] : row;
      std::memcpy(to, part.numbers + number * part.size, sizeof(float) * part.size);
      to += part.size;
    }
}

class Step {
 public:
  explicit Step(const RecurrentStep& step)
      : s_(step), rows_(step.sentences * step.hypotheses), multiply_{rows_, step.threads},
        gates_(NUM_GATES[step.kind] * step.size), states_(step.layers * rows_ * step.size), inputs_(input_size(step)),
        room_(2 * states_ + rows_ * (2 * gates_ + joined() + step.key + 2 * step.features + step.source)),
        last_hidden_(room_.numbers()), last_cell_(last_hidden_ + states_),
        input_gates_(last_cell_ + states_), recurrent_gates_(input_gates_ + rows_ * gates_),
        joined_(recurrent_gates_ + rows_ * gates_), queries_(joined_ + rows_ * joined()),
        pairs_(queries_ + rows_ * step.key), weights_(pairs_ + rows_ * 2 * step.features) {}

  void run() const {
    take_states();
    const Vectors token{s_.embeddings, s_.embedding, s_.tokens}, context{s_.context, s_.value, nullptr};
    if (s_.attends_first) attend(last_hidden_);
    const Vectors fed{s_.last_fed, fed_size(s_), s_.parents};
    join({token, s_.attends_first ? context : fed}, rows_, joined_);
    const float* below = joined_;
    for (Index i = 0; i < s_.layers; ++i) below = layer(i, below);
    if (!s_.attends_first) attend(s_.hidden);
    finish({below, s_.size, nullptr}, context, token);
  }

 private:
  /// Largest size of the vectors that enter a product: inputs of the lowest layer, or of the output.
  Index joined() const {
    const Index output = s_.size + s_.value + s_.embedding;
    return inputs_ > output ? inputs_ : output;
  }

  /// Copy the states of the parents.
  void take_states() const {
    for (Index i = 0; i < s_.layers; ++i) {
      const Index last = i * s_.last_rows * s_.size, here = i * rows_ * s_.size;
      join({{s_.last_hidden + last, s_.size, s_.parents}}, rows_, last_hidden_ + here);
      if (s_.kind == LSTM) join({{s_.last_cell + last, s_.size, s_.parents}}, rows_, last_cell_ + here);
    }
  }

  /// Compute the states of a layer, and return them.
  const float* layer(Index i, const float* below) const {
    const Index place = i * rows_ * s_.size;
    multiply_(s_.layer[i].input, below, input_gates_);
    multiply_(s_.layer[i].recurrent, last_hidden_ + place, recurrent_gates_);
    CellStep cells{};
    cells.kind = s_.kind;
    cells.rows = rows_;
    cells.size = s_.size;
    cells.input_gates = input_gates_;
    cells.input_gates_row = gates_;
    cells.recurrent = recurrent_gates_;
    cells.last_hidden = last_hidden_ + place;
    cells.last_cell = last_cell_ + place;
    cells.hidden = s_.hidden + place;
    cells.cell = s_.cell ? s_.cell + place : nullptr;
    in_use().step(cells, 0, rows_);
    return s_.hidden + place;
  }

  void attend(const float* states) const {
    const float* queries = states + s_.query_layer * rows_ * s_.size;
    if (!s_.is_additive) return attend_by_dots(queries);
    multiply_(s_.query, queries, queries_);
    attend_by_sums();
  }

  /// Call work(sentence, number of its memory, its first row, room) for every sentence.
  template <typename Work>
  void by_sentence(Index room, const Work& work) const {
    const Index multiplications = rows_ * s_.source * (s_.key + s_.value);
    const Index threads = multiplications < WORTH_SHARING ? 1 : s_.threads;
    share_out(s_.sentences, room, threads, [&](Index sentence, float* own) {
      work(s_.entries[sentence], sentence * s_.hypotheses, own);
    });
  }

  void attend_by_dots(const float* queries) const {
    Dots dots{};
    dots.batch = dots.heads = 1;
    dots.target = s_.hypotheses;
    dots.source = s_.source;
    dots.size = s_.key;
    dots.value_size = s_.value;
    dots.keep = 1;
    dots.scale = s_.scale;
    by_sentence(room_of(dots), [&](Index entry, Index row, float* room) {
      Dots own = dots;
      own.queries = {queries + row * s_.key, 0, 0, s_.key};
      own.keys = {s_.keys + entry * s_.source * s_.key, 0, 0, s_.key};
      own.values = {s_.values + entry * s_.source * s_.value, 0, 0, s_.value};
      own.context = {s_.context + row * s_.value, 0, 0, s_.value};
      own.mask = s_.mask ? s_.mask + entry * s_.source : nullptr;
      own.weights = s_.weights ? s_.weights + row * s_.source : nullptr;
      own.scores = s_.scores ? s_.scores + row * s_.source : nullptr;
      in_use().attend(own, 0, room);
    });
  }

  void attend_by_sums() const {
    Problem all{};
    all.batch = s_.stored;
    all.target = s_.hypotheses;
    all.source = s_.source;
    all.size = s_.key;
    all.vector = s_.vector;
    all.mask = s_.mask;
    all.mask_batch = s_.source;
    all.powers = s_.powers;
    all.is_split = s_.is_split;
    PlanArrays arrays;
    const Plan plan = plan_scores(all, arrays);
    float total = 0;
    for (Index i = 0; i < s_.key; ++i) total += s_.vector[i];
    float* const weights = s_.weights ? s_.weights : weights_;
    by_sentence(tile_room(all) + keys_room(all), [&](Index entry, Index row, float* room) {
      const Index keys = entry * s_.source * s_.key;
      Problem own = all;
      own.batch = 1;
      own.queries = queries_ + row * s_.key;
      own.keys = s_.keys + keys;
      own.powers = s_.powers ? s_.powers + (s_.is_split ? 2 : 1) * keys : nullptr;
      float* const of_row = weights + row * s_.source;
      if (s_.scores) {
        Plan everywhere = plan;
        everywhere.spans = nullptr;
        everywhere.seen = nullptr;
        own.mask = nullptr;
        float* const scores = s_.scores + row * s_.source;
        in_use().weigh(own, everywhere, 0, 0, s_.hypotheses, false, 1, scores, room);
        for (Index i = 0; i < s_.hypotheses * s_.source; ++i) scores[i] += total;
      }
      Plan visible = plan;
      if (s_.mask) {
        own.mask = s_.mask + entry * s_.source;
        visible.spans += entry * plan.span_batch;
        visible.seen += entry * plan.seen_batch;
      }
      in_use().weigh(own, visible, 0, 0, s_.hypotheses, true, s_.scale, of_row, room);
      in_use().mix(of_row, s_.values + entry * s_.source * s_.value, s_.hypotheses, s_.source, s_.value,
                   s_.context + row * s_.value);
    });
  }

  /// Compute the features.
  void finish(const Vectors& state, const Vectors& context, const Vectors& token) const {
    switch (s_.output) {
      case STATE_OUTPUT: return join({state}, rows_, s_.result);
      case LINEAR_OUTPUT: return join({context, state}, rows_, s_.result);
      case TANH_OUTPUT:
        join({context, state}, rows_, joined_);
        return multiply_(s_.combined, joined_, s_.result, TANH);
      case DEEP_OUTPUT:
        join({state, token, context}, rows_, joined_);
        multiply_(s_.combined, joined_, pairs_);
        return take_larger_of_pairs();
      case SUMMED_OUTPUT:
        join({token}, rows_, s_.result);
        join({state, context}, rows_, joined_);
        return multiply_(s_.combined, joined_, s_.result, NONE, s_.result);
    }
  }

  void take_larger_of_pairs() const {
    for (Index i = 0; i < rows_ * s_.features; ++i) {
      const float left = pairs_[2 * i], right = pairs_[2 * i + 1];
      s_.result[i] = left > right || left != left ? left : right;
    }
  }

  const RecurrentStep& s_;
  const Index rows_;
  const Multiply multiply_;
  const Index gates_, states_, inputs_;
  const Room room_;
  float *const last_hidden_, *const last_cell_, *const input_gates_, *const recurrent_gates_, *const joined_,
      *const queries_, *const pairs_, *const weights_;
};

}  // namespace

EXPORTED int regard_recurrent_step(const RecurrentStep* step) try {
  if (!fits(*step)) return WRONG_SIZES;
  Step(*step).run();
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}
