// Additive attention: scores, weights and gradients, against loops in double precision.
#include "checks.hpp"

#include <algorithm>

namespace {

constexpr double ROUNDED = 1e-4;  // what a sum over some hundred numbers may lose

using Numbers = std::vector<float>;

struct Case {
  Index batch, target, source, size;
  float largeness;
  bool masked, ready;  // with a mask; with the keys' powers taken before
};

struct Found {
  std::vector<double> scores, queries, keys, sigmoids;
};

double share(double x) { return 1 / (1 + std::exp(2 * x)); }

Found by_loops(const Problem& problem, const Numbers& grads) {
  Found found;
  found.scores.resize(problem.batch * problem.target * problem.source);
  found.queries.resize(problem.batch * problem.target * problem.size);
  found.keys.resize(problem.batch * problem.source * problem.size);
  found.sigmoids.resize(problem.batch * problem.size);
  for (Index b = 0; b < problem.batch; ++b)
    for (Index i = 0; i < problem.target; ++i)
      for (Index j = 0; j < problem.source; ++j) {
        const Index pair = (b * problem.target + i) * problem.source + j;
        for (Index d = 0; d < problem.size; ++d) {
          const Index query = (b * problem.target + i) * problem.size + d;
          const Index key = (b * problem.source + j) * problem.size + d;
          const double s = share(double(problem.queries[query]) + problem.keys[key]);
          const double v = problem.vector[d], slope = 4 * v * grads[pair] * s * (1 - s);
          found.scores[pair] -= 2 * v * s;
          if (grads[pair] == 0) continue;
          found.queries[query] += slope;
          found.keys[key] += slope;
          found.sigmoids[b * problem.size + d] += grads[pair] * s;
        }
      }
  return found;
}

Numbers powers_of(const Numbers& keys) {
  Numbers powers(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) powers[i] = std::exp(2 * keys[i]);
  return powers;
}

Numbers split_powers(const Numbers& keys, Index size) {
  Numbers powers(2 * keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const double power = 2 * double(keys[i]), exponent = std::round(power / std::log(2.0));
    float* place = powers.data() + i / size * 2 * size + i % size;
    place[0] = std::fabs(keys[i]) <= 4096 ? std::exp(power - exponent * std::log(2.0)) : NAN;
    place[size] = exponent;
  }
  return powers;
}

void check(const Case& c, Random& random) {
  const Index pairs = c.batch * c.target * c.source;
  Numbers queries = drawn<float>(random, c.batch * c.target * c.size, c.largeness);
  Numbers keys = drawn<float>(random, c.batch * c.source * c.size, c.largeness);
  Numbers vector = drawn<float>(random, c.size, 1 / std::sqrt(float(c.size)));
  Numbers grads = drawn<float>(random, pairs);
  std::vector<std::uint8_t> mask(pairs);
  for (Index pair = 0; pair < pairs; ++pair) mask[pair] = random() % 3 != 0;
  if (c.masked)
    for (Index pair = 0; pair < pairs; ++pair) grads[pair] *= mask[pair];
  const bool is_split =
      std::any_of(keys.begin(), keys.end(), [](float key) { return !(std::fabs(key) <= 43); });
  const Numbers powers = is_split ? split_powers(keys, c.size) : powers_of(keys);
  Problem problem{c.batch, c.target, c.source, c.size, queries.data(), keys.data(),
                  c.ready ? powers.data() : nullptr, vector.data(),
                  c.masked ? mask.data() : nullptr, c.target * c.source, c.source,
                  THREADS, is_split,
                  {bytes(queries), bytes(keys), c.ready ? bytes(powers) : 0, bytes(vector),
                   c.masked ? bytes(mask) : 0}};
  const Found right = by_loops(problem, grads);
  Numbers scores = unknown<float>(pairs);
  problem.mask = nullptr;
  must_run(regard_additive_weigh(&problem, 0, 1, scores.data(), bytes(scores)));
  compare("scores", scores, right.scores, ROUNDED);
  if (c.masked) problem.mask = mask.data();

  std::vector<double> softmax(pairs);
  for (Index row = 0; row < pairs; row += c.source) {
    double top = -INFINITY, whole = 0;
    auto seen = [&](Index j) { return !c.masked || mask[row + j]; };
    for (Index j = 0; j < c.source; ++j)
      if (seen(j)) top = std::max(top, right.scores[row + j]);
    for (Index j = 0; j < c.source; ++j)
      if (seen(j)) whole += softmax[row + j] = std::exp(right.scores[row + j] - top);
    for (Index j = 0; j < c.source && whole > 0; ++j) softmax[row + j] /= whole;
  }
  Numbers weights = unknown<float>(pairs);
  must_run(regard_additive_weigh(&problem, 1, 1, weights.data(), bytes(weights)));
  compare("weights", weights, softmax, ROUNDED);

  Numbers grad_queries = unknown<float>(queries.size()), grad_keys = unknown<float>(keys.size());
  std::vector<double> sigmoids(c.batch * c.size, NAN);
  const Gradients all{grads.data(), grad_queries.data(), grad_keys.data(), sigmoids.data(),
                      {bytes(grads), bytes(grad_queries), bytes(grad_keys), bytes(sigmoids)}};
  must_run(regard_additive_differentiate(&problem, &all));
  compare("gradients of queries", grad_queries, right.queries, ROUNDED);
  compare("gradients of keys", grad_keys, right.keys, ROUNDED);
  compare("sums of sigmoids", sigmoids, right.sigmoids, ROUNDED);
  grad_queries = unknown<float>(queries.size()), grad_keys = unknown<float>(keys.size());
  const Gradients first{grads.data(), grad_queries.data(), nullptr, nullptr,
                        {bytes(grads), bytes(grad_queries), 0, 0}};
  const Gradients second{grads.data(), nullptr, grad_keys.data(), sigmoids.data(),
                         {bytes(grads), 0, bytes(grad_keys), bytes(sigmoids)}};
  must_run(regard_additive_differentiate(&problem, &first));
  must_run(regard_additive_differentiate(&problem, &second));
  compare("gradients of queries alone", grad_queries, right.queries, ROUNDED);
  compare("gradients of keys alone", grad_keys, right.keys, ROUNDED);

  const float scale = 0.7f;
  std::vector<double> through(pairs);
  for (Index row = 0; row < pairs; row += c.source) {
    double whole = 0;
    for (Index j = row; j < row + c.source; ++j) whole += double(weights[j]) * grads[j];
    for (Index j = row; j < row + c.source; ++j)
      through[j] = double(scale) * weights[j] * (grads[j] - whole);
  }
  const Index rows = c.batch * c.target;
  must_run(regard_additive_through_softmax(weights.data(), grads.data(), scale, rows, c.source,
                                           THREADS, bytes(weights), bytes(grads)));
  compare("gradients through softmax", grads, through, ROUNDED);
  if (pairs == 0) return;
  auto weigh = [&](const Problem& wrong) {
    return regard_additive_weigh(&wrong, 1, 1, weights.data(), bytes(weights));
  };
  must_refuse_wrong(problem, {&Problem::batch, &Problem::target, &Problem::source, &Problem::size}, weigh);
  must_refuse(regard_additive_weigh(&problem, 1, 1, weights.data(), bytes(weights) - 1));
  must_refuse_wrong(all, {}, [&](const Gradients& wrong) {
    return regard_additive_differentiate(&problem, &wrong);
  });
  must_refuse_wrong(problem, {&Problem::batch, &Problem::target, &Problem::source, &Problem::size},
                    [&](const Problem& wrong) { return regard_additive_differentiate(&wrong, &all); });
  for (Index more : {Index(1), INT64_MAX / 2})
    must_refuse(regard_additive_through_softmax(weights.data(), grads.data(), scale, rows + more, c.source,
                                                THREADS, bytes(weights), bytes(grads)));
}

}  // namespace

int check_additive(Random& random) {
  std::vector<Case> cases;
  for (float largeness : {0.1f, 1.0f, 8.0f, 30.0f, 100.0f, 1e4f})
    for (int options = 0; options < 4; ++options) {
      auto up_to = [&](int most) { return 1 + Index(random() % most); };
      const bool masked = options & 1, ready = options & 2;
      cases.push_back({up_to(3), up_to(20), up_to(40), up_to(300), largeness, masked, ready});
      cases.push_back({2, up_to(3), up_to(40), up_to(300), largeness, masked, ready});
    }
  cases.push_back({3, 66, 90, 131, 1, true, false});  // large enough for threads
  cases.push_back({1, 150, 290, 64, 1, false, false});
  cases.push_back({0, 3, 5, 7, 1, true, false});
  cases.push_back({3, 0, 5, 7, 1, true, true});
  cases.push_back({2, 3, 0, 7, 1, true, false});
  cases.push_back({2, 3, 5, 0, 1, true, false});  // vectors without numbers
  for (const Case& each : cases) check(each, random);
  return int(cases.size());
}
