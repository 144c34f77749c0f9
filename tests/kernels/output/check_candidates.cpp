// The best candidates of a search, against a sort of all that there are.
#include "checks.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace {

struct Case {
  Index sentences, hypotheses, words, count, num_forbidden;
  bool equal, dead;  // with logits that are all the same; with a hypothesis that is impossible
};

/// What all that a sentence may write has as its log probability: as many as hypotheses x words.
template <typename Number>
std::vector<double> logs_of(const Case& c, const Number* logits, const std::vector<Index>& forbidden) {
  std::vector<double> logs(c.hypotheses * c.words);
  for (Index row = 0; row < c.hypotheses; ++row) {
    double powers = 0;
    for (Index word = 0; word < c.words; ++word) powers += std::exp(value(logits[row * c.words + word]));
    for (Index word = 0; word < c.words; ++word)
      logs[row * c.words + word] = value(logits[row * c.words + word]) - std::log(powers);
    for (Index word : forbidden) logs[row * c.words + word] = -INFINITY;
  }
  return logs;
}

template <typename Number>
void check(const Case& c, Random& random) {
  const Index rows = c.sentences * c.hypotheses;
  std::vector<Number> logits = drawn<Number>(random, rows * c.words, c.equal ? 0 : 3);
  std::vector<float> totals = drawn<float>(random, rows, c.equal ? 0 : 1);
  if (c.dead)
    for (Index i = 0; i < c.sentences; ++i) totals[i * c.hypotheses] = -INFINITY;
  std::vector<Index> forbidden(c.num_forbidden);
  for (Index i = 0; i < c.num_forbidden; ++i) forbidden[i] = 2 * i;

  std::vector<float> sums = unknown<float>(c.sentences * c.count), logs = sums;
  std::vector<Index> parents(sums.size(), -1), tokens(sums.size(), -1);
  const Candidates candidates{c.sentences, c.hypotheses, c.words, c.count, c.num_forbidden,
                              IS_BFLOAT16<Number>, THREADS, logits.data(), totals.data(), forbidden.data(),
                              sums.data(), logs.data(), parents.data(), tokens.data(),
                              {bytes(logits), bytes(totals), bytes(forbidden), bytes(sums), bytes(logs),
                               bytes(parents), bytes(tokens)}};
  must_run(regard_candidates(&candidates));

  std::vector<double> best, of_chosen, log_of_chosen;
  for (Index sentence = 0; sentence < c.sentences; ++sentence) {
    const auto right = logs_of(c, logits.data() + sentence * c.hypotheses * c.words, forbidden);
    auto sum = [&](Index place) {
      return double(totals[sentence * c.hypotheses + place / c.words]) + right[place];
    };
    std::vector<double> all(right.size());
    for (std::size_t place = 0; place < all.size(); ++place) all[place] = sum(place);
    std::sort(all.rbegin(), all.rend());
    best.insert(best.end(), all.begin(), all.begin() + c.count);
    std::set<Index> chosen;
    Index last = -1;
    for (Index i = sentence * c.count; i < (sentence + 1) * c.count; ++i) {
      must(parents[i] >= 0 && parents[i] < c.hypotheses && tokens[i] >= 0 && tokens[i] < c.words,
           "a candidate is none");
      const Index place = parents[i] * c.words + tokens[i];
      of_chosen.push_back(sum(place));
      log_of_chosen.push_back(of_chosen.back() == -INFINITY ? -INFINITY : right[place]);
      if (of_chosen.back() == -INFINITY) continue;
      must(chosen.insert(place).second, "a candidate comes twice");
      must(!c.equal || place > last, "of equal candidates the first does not come first");
      last = place;
    }
  }
  compare("the best sums", sums, best);
  compare("sums of the chosen", sums, of_chosen);
  compare("log probabilities of the chosen", logs, log_of_chosen);
  if (c.sentences == 0) return;
  must_refuse_wrong(candidates,
                    {&Candidates::sentences, &Candidates::hypotheses, &Candidates::words,
                     &Candidates::count, &Candidates::num_forbidden},
                    [](const Candidates& wrong) { return regard_candidates(&wrong); });
}

}  // namespace

int check_candidates(Random& random) {
  std::vector<Case> cases{{0, 3, 7, 2, 1, false, false}, {7, 5, 4099, 10, 3, false, true}};
  for (Index words : ODD_SIZES)
    for (int options = 0; options < 8; ++options) {
      const bool equal = options & 1, dead = options & 2, forbidden = options & 4;
      const Index count = std::min<Index>(7, 5 * words), num_forbidden = forbidden ? (words + 2) / 3 : 0;
      cases.push_back({3, 5, words, count, num_forbidden, equal, dead});
      cases.push_back({2, 1, words, 1, forbidden ? words / 3 : 0, equal, false});
    }
  for (const Case& each : cases) check<float>(each, random), check<BFloat16>(each, random);
  return 2 * int(cases.size());
}
