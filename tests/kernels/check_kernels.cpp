// The kernels under the sanitizers (make sanitize): problems of many shapes in arrays that end where
// their numbers do, on several threads, for every instruction set of this machine. What is found is
// held against loops in double precision; what the sanitizers find ends the program.
#include "additive.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

extern "C" {
int regard_lanes(int);
int regard_additive_weigh(const Problem*, int, float, float*);
int regard_additive_differentiate(const Problem*, const Gradients*);
int regard_additive_through_softmax(const float*, float*, float, Index, Index, Index);
}

namespace {

using Numbers = std::vector<float>;

struct Case {
  Index batch, target, source, size;
  float largeness;
  bool masked, ready;  // with a mask; with the keys' powers taken before
};

struct Found {
  std::vector<double> scores, queries, keys, shares;
};

double share(double x) { return 1 / (1 + std::exp(2 * x)); }

Found by_loops(const Problem& problem, const Numbers& grads) {
  Found found;
  found.scores.resize(problem.batch * problem.target * problem.source);
  found.queries.resize(problem.batch * problem.target * problem.size);
  found.keys.resize(problem.batch * problem.source * problem.size);
  found.shares.resize(problem.batch * problem.size);
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
          found.shares[b * problem.size + d] += grads[pair] * s;
        }
      }
  return found;
}

template <typename Number>
void compare(const char* what, const std::vector<Number>& ours, const std::vector<double>& right) {
  for (std::size_t i = 0; i < right.size(); ++i)
    if (!(std::fabs(ours[i] - right[i]) <= 1e-4 * (1 + std::fabs(right[i])))) {
      std::printf("%s: number %zu is %g, not %g\n", what, i, double(ours[i]), right[i]);
      std::exit(1);
    }
}

void check(const Case& c, std::mt19937& random) {
  std::normal_distribution<float> normal;
  auto draw = [&](Index count, float factor) {
    Numbers numbers(count);
    for (float& number : numbers) number = factor * normal(random);
    return numbers;
  };
  const Index pairs = c.batch * c.target * c.source;
  Numbers queries = draw(c.batch * c.target * c.size, c.largeness);
  Numbers keys = draw(c.batch * c.source * c.size, c.largeness);
  Numbers vector = draw(c.size, 1 / std::sqrt(float(c.size))), grads = draw(pairs, 1);
  std::vector<std::uint8_t> mask(pairs);
  for (Index pair = 0; pair < pairs; ++pair) mask[pair] = random() % 3 != 0;
  if (c.masked)
    for (Index pair = 0; pair < pairs; ++pair) grads[pair] *= mask[pair];
  Numbers powers(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    powers[i] = std::fabs(keys[i]) <= 43 ? std::exp(2 * keys[i]) : NAN;
  Problem problem{c.batch, c.target, c.source, c.size, queries.data(), keys.data(),
                  c.ready ? powers.data() : nullptr, vector.data(),
                  c.masked ? mask.data() : nullptr, c.target * c.source, c.source, 4};
  const Found right = by_loops(problem, grads);
  Numbers scores(pairs);
  problem.mask = nullptr;
  if (regard_additive_weigh(&problem, 0, 1, scores.data())) std::exit(1);
  compare("scores", scores, right.scores);
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
  if (regard_additive_weigh(&problem, 1, 1, scores.data())) std::exit(1);
  compare("weights", scores, softmax);

  Numbers grad_queries(queries.size()), grad_keys(keys.size());
  std::vector<double> shares(c.batch * c.size);
  const Gradients all{grads.data(), grad_queries.data(), grad_keys.data(), shares.data()};
  if (regard_additive_differentiate(&problem, &all)) std::exit(1);
  compare("gradients of queries", grad_queries, right.queries);
  compare("gradients of keys", grad_keys, right.keys);
  compare("sums of shares", shares, right.shares);
  const Gradients first{grads.data(), grad_queries.data(), nullptr, nullptr};
  const Gradients second{grads.data(), nullptr, grad_keys.data(), shares.data()};
  if (regard_additive_differentiate(&problem, &first)) std::exit(1);
  if (regard_additive_differentiate(&problem, &second)) std::exit(1);
  compare("gradients of queries alone", grad_queries, right.queries);
  compare("gradients of keys alone", grad_keys, right.keys);
  if (regard_additive_through_softmax(scores.data(), grads.data(), 1, pairs / c.source, c.source, 4))
    std::exit(1);
}

}  // namespace

int main() {
  std::mt19937 random(1);
  int count = 0;
  for (int lanes : {16, 8, 4}) {
    if (regard_lanes(lanes) != lanes) continue;
    for (float largeness : {0.1f, 1.0f, 8.0f, 100.0f})
      for (int options = 0; options < 4; ++options) {
        auto up_to = [&](int most) { return 1 + Index(random() % most); };
        const bool masked = options & 1, ready = options & 2;
        check({up_to(3), up_to(20), up_to(40), up_to(300), largeness, masked, ready}, random);
        check({2, up_to(3), up_to(40), up_to(300), largeness, masked, ready}, random);
        count += 2;
      }
    check({3, 66, 90, 131, 1, true, false}, random);   // large enough for threads
    check({1, 150, 290, 64, 1, false, false}, random);
    count += 2;
  }
  std::printf("%d problems are right\n", count);
}
