// Candidates of a search: the best next words, best first.
//
//   log p_v = x_v - log sum_w e^{x_w}        -inf for words that are forbidden
//   sum     = total + log p_v                of a hypothesis and a word
//
// The `count` highest sums over all hypotheses and words of a sentence. Equal sums are ordered by
// hypothesis, then by word. NaN counts as higher than all numbers.
#pragma once

#include "output/entropy.hpp"

namespace {

/// The best candidates so far, best first.
struct Best {
  Index capacity, size;
  float* sums;
  float* logs;
  Index* hypotheses;
  Index* words;

  static bool beats(float one, float other) { return one > other || (one != one && other == other); }

  bool takes(float sum) const { return size < capacity || beats(sum, sums[size - 1]); }

  void add(float sum, float log, Index hypothesis, Index word) {
    if (!takes(sum)) return;
    Index place = size < capacity ? size++ : size - 1;
    for (; place > 0 && beats(sum, sums[place - 1]); --place) move(place - 1, place);
    put(place, sum, log, hypothesis, word);
  }

 private:
  void move(Index from, Index to) { put(to, sums[from], logs[from], hypotheses[from], words[from]); }
  void put(Index place, float sum, float log, Index hypothesis, Index word) {
    sums[place] = sum, logs[place] = log, hypotheses[place] = hypothesis, words[place] = word;
  }
};

bool is_forbidden(const Candidates& given, Index word) {
  for (Index i = 0; i < given.num_forbidden; ++i)
    if (given.forbidden[i] == word) return true;
  return false;
}

/// Add the candidates of one hypothesis.
template <typename Number>
void offer(const Candidates& given, const Number* logits, float total, Index hypothesis, Best& best) {
  const float log_sum = log_of_sum(logits, given.words, number(logits[0])).log_sum;
  over(given.words, [&](Index first, auto count) {
    const Vector logs = load(logits + first, count, -__builtin_inff()) - log_sum, sums = logs + total;
    if (best.size == best.capacity && all_at_most(sums, best.sums[best.size - 1])) return;
    for (int lane = 0; lane < count; ++lane) {
      if (!best.takes(sums[lane])) continue;
      const bool forbidden = is_forbidden(given, first + lane);
      const float log = forbidden ? -__builtin_inff() : logs[lane];
      best.add(total + log, log, hypothesis, first + lane);
    }
  });
}

template <typename Number>
void find(const Candidates& given, Index sentence) {
  const Index place = sentence * given.count;
  Best best{given.count,         0, given.sums + place, given.logs + place, given.parents + place,
            given.tokens + place};
  for (Index i = 0; i < given.hypotheses; ++i) {
    const Index row = sentence * given.hypotheses + i;
    offer(given, static_cast<const Number*>(given.logits) + row * given.words, given.totals[row], i,
          best);
  }
  for (Index i = 0; i < best.size; ++i)
    if (best.sums[i] == -__builtin_inff()) best.logs[i] = best.sums[i];
}

void candidates(const Candidates& given, Index sentence) {
  given.is_bfloat16 ? find<BFloat16>(given, sentence) : find<float>(given, sentence);
}

}  // namespace
