// The layers of a Transformer's encoder:
//
//   x = x + self-attention(norm(x))
//   x = x + W2 activation(W1 norm(x))                 in every layer; or each norm after its sum
//
// The reference is `EncoderLayer` in models/transformer/encoder.py. Only real positions are computed. Those of
// several sentences, a group, are the rows of a product, so a weight is read once for a group. A row has the
// same result in any group.
#include <algorithm>
#include <cstring>

#include "models/encoder_sizes.hpp"
#include "models/sublayers.hpp"
#include "threads.hpp"

namespace {

constexpr Index ROWS_OF_GROUP = 256;    // enough for reading the weights to take little of the time
constexpr Index QUERIES_OF_TASK = 128;  // of a head, which limits the room of attention

/// Real positions of all sentences. A sentence has the rows from `first[i]` to before `first[i + 1]`.
struct Positions {
  std::vector<Index> places, first;

  explicit Positions(const EncoderPass& pass) : first{0} {
    for (Index sentence = 0; sentence < pass.sentences; ++sentence) {
      for (Index i = sentence * pass.source; i < (sentence + 1) * pass.source; ++i)
        if (!pass.mask || pass.mask[i]) places.push_back(i);
      first.push_back(Index(places.size()));
    }
  }
};

/// Sentences from `first` to before `end`.
struct Group {
  Index first, end;
};

/// Divide the sentences into at most `count` groups with nearly equal numbers of rows.
std::vector<Group> groups_of(const Positions& positions, Index count) {
  const Index sentences = Index(positions.first.size()) - 1, rows = Index(positions.places.size());
  std::vector<Group> groups{{0, 0}};
  Index last = 0;  // share of the rows, from 0 to before `count`, in which a group begins
  for (Index sentence = 0; sentence < sentences; ++sentence) {
    const Index share = positions.first[sentence] * count / (rows + 1);
    if (share > last) groups.push_back({sentence, sentence});
    last = share;
    groups.back().end = sentence + 1;
  }
  return groups;
}

Index rows_of(const Positions& positions, Group group) {
  return positions.first[group.end] - positions.first[group.first];
}

/// Arguments of attention in one sentence, without its arrays.
Dots attention_of(const EncoderPass& pass, Index length) {
  Dots dots{};
  dots.batch = dots.threads = 1;
  dots.heads = pass.heads;
  dots.target = length < QUERIES_OF_TASK ? length : QUERIES_OF_TASK;
  dots.source = length;
  dots.size = dots.value_size = pass.size / pass.heads;
  dots.keep = 1;
  dots.scale = pass.scale;
  return dots;
}

/// The layers for one group. Its states are rows of the room.
class Layers : Sublayers {
 public:
  Layers(const EncoderPass& pass, const Positions& positions, Group group, Index threads, float* room)
      : Sublayers(room, room + rows_of(positions, group) * pass.size, rows_of(positions, group), pass.size,
                  pass.norm_first, pass.activation, threads),
        pass_(pass), positions_(positions), group_(group), projected_(normed_ + rows_ * size_),
        hidden_(projected_), for_attention_(projected_ + rows_ * projected_size(pass)) {}

  /// Room of a group with this number of rows, whose sentences have at most `source` real positions.
  static Index room(const EncoderPass& pass, Index rows) {
    return rows * (2 * pass.size + projected_size(pass)) + room_of(attention_of(pass, pass.source));
  }

  void run() const {
    load();
    for (Index i = 0; i < pass_.layers; ++i) {
      const EncoderLayer& layer = pass_.layer[i];
      multiply_(layer.projection, before(layer.self_norm), projected_);
      if (pass_.cosines) rotate();
      attend();
      after(layer.self_norm, layer.output, normed_);
      feed_forward(layer.feed_forward_norm, layer.inner, layer.outer, hidden_);
      if (pass_.last.weight && i + 1 == pass_.layers) normalise(pass_.last, states_, states_);
      store(i);
    }
  }

 private:
  /// Numbers of a row for projections, or for the feed-forward network.
  static Index projected_size(const EncoderPass& pass) {
    return pass.inner > 3 * pass.size ? pass.inner : 3 * pass.size;
  }

  /// First row of a sentence in the room.
  Index row_of(Index sentence) const { return positions_.first[sentence] - positions_.first[group_.first]; }

  Index length(Index sentence) const { return positions_.first[sentence + 1] - positions_.first[sentence]; }

  const Index* places() const { return positions_.places.data() + positions_.first[group_.first]; }

  /// Copy the embeddings of real positions.
  void load() const {
    for (Index row = 0; row < rows_; ++row)
      std::memcpy(states_ + row * size_, pass_.embedded + places()[row] * size_, sizeof(float) * size_);
  }

  /// Write the states of a layer, and zeros at padding.
  void store(Index layer) const {
    float* to = pass_.states + layer * pass_.sentences * pass_.source * size_;
    Index row = 0;
    for (Index place = group_.first * pass_.source; place < group_.end * pass_.source; ++place) {
      if (row < rows_ && places()[row] == place)
        std::memcpy(to + place * size_, states_ + row++ * size_, sizeof(float) * size_);
      else
        std::memset(to + place * size_, 0, sizeof(float) * size_);
    }
  }

  /// Rotate queries and keys.
  void rotate() const {
    const Index part = size_ / pass_.heads;
    for (Index row = 0; row < rows_; ++row) {
      const Index turn = places()[row] % pass_.source * part;
      for (Index head = 0; head < 2 * pass_.heads; ++head)
        in_use().rotate(projected_ + row * 3 * size_ + head * part, pass_.cosines + turn, pass_.sines + turn, part);
    }
  }

  /// Write the contexts of all rows to `normed_`.
  void attend() const {
    const Index tasks = (group_.end - group_.first) * pass_.heads;
    const auto attend_in = [&](Index task, float* room) {
      attend_in_head(group_.first + task / pass_.heads, task % pass_.heads, room);
    };
    if (threads_ > 1 && rows_ * pass_.source * size_ >= WORTH_SHARING)
      return share_out(tasks, room_of(attention_of(pass_, pass_.source)), threads_, attend_in);
    for (Index task = 0; task < tasks; ++task) attend_in(task, for_attention_);
  }

  void attend_in_head(Index sentence, Index head, float* room) const {
    const Index step = 3 * size_, part = size_ / pass_.heads, count = length(sentence);
    const float* queries = projected_ + row_of(sentence) * step;
    float* contexts = normed_ + row_of(sentence) * size_;
    Dots dots = attention_of(pass_, count);
    dots.keys = {queries + size_, 0, part, step};
    dots.values = {queries + 2 * size_, 0, part, step};
    for (Index row = 0; row < count; row += QUERIES_OF_TASK) {
      dots.queries = {queries + row * step, 0, part, step};
      dots.context = {contexts + row * size_, 0, part, size_};
      dots.target = count - row < QUERIES_OF_TASK ? count - row : QUERIES_OF_TASK;
      in_use().attend(dots, head, room);
    }
  }

  const EncoderPass& pass_;
  const Positions& positions_;
  const Group group_;
  float *const projected_, *const hidden_, *const for_attention_;
};

/// Compute groups on several threads, or all products on several threads if there are fewer groups.
void encode(const EncoderPass& pass) {
  const Positions positions(pass);
  const Index rows = Index(positions.places.size()), least = 1 + rows / ROWS_OF_GROUP;
  const bool is_small = rows * pass.size * (pass.size + pass.inner) < WORTH_SHARING;
  const Index threads = pass.threads < 2 || is_small ? 1 : std::min(pass.threads, rows);
  std::vector<Group> groups = groups_of(positions, (least + threads - 1) / threads * threads);
  const bool by_groups = Index(groups.size()) >= threads;
  if (!by_groups) groups = groups_of(positions, least);
  Index most = 0;
  for (Group group : groups) most = std::max(most, rows_of(positions, group));
  std::atomic<bool> has_memory{true};
  share_out(Index(groups.size()), Layers::room(pass, most), by_groups ? threads : 1, [&](Index i, float* room) {
    try {
      Layers(pass, positions, groups[i], by_groups ? 1 : threads, room).run();
    } catch (const std::bad_alloc&) {  // may not leave a thread
      has_memory = false;
    }
  });
  if (!has_memory) throw std::bad_alloc();
}

}  // namespace

EXPORTED int regard_encode(const EncoderPass* pass) try {
  if (!fits(*pass)) return WRONG_SIZES;
  if (pass->sentences > 0 && pass->source > 0) encode(*pass);
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}
