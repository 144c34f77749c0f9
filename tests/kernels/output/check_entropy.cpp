// Cross entropy and its gradient, against loops in double precision.
#include "checks.hpp"

namespace {

struct Case {
  Index rows, words;
  float smoothing;
  bool hidden, in_place;  // with words that cannot be; gradients in the place of the logits
};

template <typename Number>
void check(const Case& c, Random& random) {
  std::vector<Number> logits = drawn<Number>(random, c.rows * c.words, 3);
  std::vector<Index> targets(c.rows);
  for (Index& target : targets) target = random() % c.words;
  if (c.hidden)
    for (Index i = 0; i < c.rows * c.words; ++i)
      if (i % 3 == 1 && i % c.words != targets[i / c.words]) logits[i] = shortened<Number>(-INFINITY);

  const float above = 0.7f;
  std::vector<double> losses, grads, sums;
  for (Index row = 0; row < c.rows; ++row) {
    auto logit = [&](Index word) { return double(value(logits[row * c.words + word])); };
    double powers = 0, total = 0;
    for (Index word = 0; word < c.words; ++word) powers += std::exp(logit(word)), total += logit(word);
    const double log_sum = std::log(powers), even = double(c.smoothing) / c.words;
    sums.push_back(log_sum);
    losses.push_back(log_sum - (1 - double(c.smoothing)) * logit(targets[row]) -
                     (even ? even * total : 0));
    for (Index word = 0; word < c.words; ++word) {
      const double label = (word == targets[row] ? 1 - double(c.smoothing) : 0) + even;
      grads.push_back(above * (std::exp(logit(word) - log_sum) - label));
    }
  }

  std::vector<float> log_sums = unknown<float>(c.rows);
  std::vector<double> found(c.rows, NAN);
  std::vector<Number> apart = unknown<Number>(c.in_place ? 0 : logits.size());
  std::vector<Number>& given = c.in_place ? logits : apart;
  const Entropy entropy{c.rows, c.words, IS_BFLOAT16<Number>, THREADS, logits.data(), targets.data(),
                        log_sums.data(), given.data(), c.smoothing,
                        {bytes(logits), bytes(targets), bytes(log_sums), bytes(given)}};
  must_run(regard_cross_entropy(&entropy, found.data(), bytes(found)));
  compare("logs of sums", log_sums, sums);
  compare("losses", found, losses, NEAR<float>);
  must_run(regard_cross_entropy_back(&entropy, above));
  compare("gradients of logits", given, grads);
  if (c.rows == 0) return;
  must_refuse_wrong(entropy, {&Entropy::rows, &Entropy::words},
                    [](const Entropy& wrong) { return regard_cross_entropy_back(&wrong, 1); });
  must_refuse(regard_cross_entropy(&entropy, found.data(), bytes(found) - 1));
  for (Index target : {Index(-1), c.words, INT64_MAX}) {
    targets[0] = target;
    must_refuse(regard_cross_entropy(&entropy, found.data(), bytes(found)));
  }
}

}  // namespace

int check_entropy(Random& random) {
  std::vector<Case> cases{{0, 5, 0.1f, false, false}, {67, 1031, 0.1f, false, true}};
  for (Index words : ODD_SIZES)
    for (int options = 0; options < 4; ++options) {
      const bool hidden = options & 1, in_place = options & 2;
      cases.push_back({3, words, hidden ? 0 : 0.1f, hidden, in_place});
    }
  for (const Case& each : cases) check<float>(each, random), check<BFloat16>(each, random);
  return 2 * int(cases.size());
}
