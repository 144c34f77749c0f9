// Attention by dot products of short sequences and the way back through it, against loops in double
// precision. The noise of its weights is what dropout does with ones.
#include "checks.hpp"

#include <algorithm>

namespace {

enum Sight { ALL, CAUSAL, ONE_MASK, MASKS };  // a mask for every sentence, or for every query as well

struct Case {
  Index batch, heads, target, source, size, value_size;
  Sight sight;
  float keep;
  bool trained;  // with weights kept for the way back
};

/// Vectors of sentences, heads and positions; a position's heads stand side by side, and numbers that
/// are nobody's behind them.
template <typename Number>
struct Vectors {
  static constexpr Index APART = 3;
  Index batch, heads, positions, size, row;
  std::vector<Number> numbers;

  Vectors(Index batch, Index heads, Index positions, Index size)
      : batch(batch), heads(heads), positions(positions), size(size), row(heads * size + APART),
        numbers(unknown<Number>(batch * positions > 0 ? batch * positions * row - APART : 0)) {}

  Strided strided() { return {numbers.data(), positions * row, size, row}; }
  Number& at(Index b, Index h, Index i, Index d) {
    return numbers[(b * positions + i) * row + h * size + d];
  }
  double operator()(Index b, Index h, Index i, Index d) { return value(at(b, h, i, d)); }

  /// All numbers in the order of the axes.
  std::vector<Number> dense() {
    std::vector<Number> found;
    for (Index b = 0; b < batch; ++b)
      for (Index h = 0; h < heads; ++h)
        for (Index i = 0; i < positions; ++i)
          for (Index d = 0; d < size; ++d) found.push_back(at(b, h, i, d));
    return found;
  }

  void draw(Random& random) {
    const std::vector<Number> some = drawn<Number>(random, batch * heads * positions * size);
    for (Index n = 0; n < Index(some.size()); ++n) {
      const Index i = n / size % positions, h = n / size / positions % heads;
      at(n / size / positions / heads, h, i, n % size) = some[n];
    }
  }

  void must_keep_to_its_own() {
    for (std::size_t n = 0; n < numbers.size(); ++n)
      must(Index(n) % row < heads * size || std::isnan(value(numbers[n])), "numbers that are nobody's");
  }
};

/// The same in double precision and without room between.
struct Right {
  Index heads, positions, size;
  std::vector<double> numbers;

  Right(Index batch, Index heads, Index positions, Index size)
      : heads(heads), positions(positions), size(size), numbers(batch * heads * positions * size) {}
  double& at(Index b, Index h, Index i, Index d) {
    return numbers[((b * heads + h) * positions + i) * size + d];
  }
};

template <typename Number>
struct Attention {
  Case c;
  Vectors<Number> queries, keys, values, context, above, grad_queries, grad_keys, grad_values;
  std::vector<std::uint8_t> mask;
  std::vector<float> weights, scores;
  Dots dots;

  Attention(const Case& c, Random& random)
      : c(c), queries(c.batch, c.heads, c.target, c.size), keys(c.batch, c.heads, c.source, c.size),
        values(c.batch, c.heads, c.source, c.value_size),
        context(c.batch, c.heads, c.target, c.value_size), above(context), grad_queries(queries),
        grad_keys(keys), grad_values(values),
        mask(c.batch * (c.sight == MASKS ? c.target : 1) * c.source),
        weights(unknown<float>(c.trained ? c.batch * c.heads * c.target * c.source : 0)),
        scores(weights) {
    for (auto* each : {&queries, &keys, &values, &above}) each->draw(random);
    for (std::size_t i = 0; i < mask.size(); ++i)  // some see nothing
      mask[i] = i >= std::size_t(c.source) && random() % 3 != 0;
    const bool masked = c.sight == ONE_MASK || c.sight == MASKS;
    const Index mask_row = c.sight == MASKS ? c.source : 0;
    dots = {c.batch, c.heads, c.target, c.source, c.size, c.value_size, IS_BFLOAT16<Number>,
            c.sight == CAUSAL, THREADS, queries.strided(), keys.strided(), values.strided(),
            context.strided(), grad_queries.strided(), grad_keys.strided(), grad_values.strided(),
            masked ? mask.data() : nullptr, mask_row ? c.target * mask_row : c.source, mask_row,
            c.trained ? weights.data() : nullptr, c.trained ? scores.data() : nullptr,
            0x123456789abcdefu, c.keep, 0.7f,
            {bytes(queries.numbers), bytes(keys.numbers), bytes(values.numbers), bytes(context.numbers),
             bytes(grad_queries.numbers), bytes(grad_keys.numbers), bytes(grad_values.numbers),
             masked ? bytes(mask) : 0, bytes(weights), bytes(scores)}};
  }

  bool seen(Index b, Index i, Index j) const {
    if (c.sight == CAUSAL) return j <= i;
    return !dots.mask || mask[b * dots.mask_batch + i * dots.mask_row + j];
  }

  /// What dropout multiplies each weight by; rows of weights are whole vectors of every
  /// instruction set to it.
  std::vector<double> noise() const {
    const Index row = (c.source + MAX_LANES - 1) / MAX_LANES * MAX_LANES;
    const std::vector<float> ones(c.batch * c.heads * c.target * row, 1);
    std::vector<float> found = ones;
    const Dropping dropping{Index(ones.size()), 0, 1, ones.data(), found.data(), dots.seed, c.keep,
                            {bytes(ones), bytes(found)}};
    if (c.keep < 1) must_run(regard_drop(&dropping));
    std::vector<double> factors;
    for (std::size_t n = 0; n < found.size(); ++n)
      if (Index(n) % row < c.source) factors.push_back(found[n]);
    return factors;
  }
};

std::vector<double> softmax(std::vector<double> scores) {
  double top = -INFINITY, whole = 0;
  for (double score : scores) top = std::max(top, score);
  for (double& score : scores) whole += score = score == -INFINITY ? 0 : std::exp(score - top);
  for (double& weight : scores) weight /= whole ? whole : 1;
  return scores;
}

template <typename Number>
void check(const Case& c, Random& random) {
  Attention<Number> problem(c, random);
  auto& [_, queries, keys, values, context, above, grad_queries, grad_keys, grad_values, mask, weights,
         shown, dots] = problem;
  const std::vector<double> noise = problem.noise();
  std::vector<double> right_weights, right_scores;
  Right right_context(c.batch, c.heads, c.target, c.value_size);
  Right right_queries(c.batch, c.heads, c.target, c.size);
  Right right_keys(c.batch, c.heads, c.source, c.size);
  Right right_values(c.batch, c.heads, c.source, c.value_size);
  for (Index b = 0; b < c.batch; ++b)
    for (Index h = 0; h < c.heads; ++h)
      for (Index i = 0; i < c.target; ++i) {
        std::vector<double> scores(c.source, -INFINITY), grads(c.source);
        for (Index j = 0; j < c.source; ++j) {
          double score = 0;
          for (Index d = 0; d < c.size; ++d)
            score += double(dots.scale) * queries(b, h, i, d) * keys(b, h, j, d);
          right_scores.push_back(score);
          if (problem.seen(b, i, j)) scores[j] = score;
        }
        const std::vector<double> row = softmax(scores);
        const double* factors = noise.data() + ((b * c.heads + h) * c.target + i) * c.source;
        double whole = 0;
        for (Index j = 0; j < c.source; ++j) {
          for (Index d = 0; d < c.value_size; ++d) {
            right_context.at(b, h, i, d) += row[j] * factors[j] * values(b, h, j, d);
            right_values.at(b, h, j, d) += row[j] * factors[j] * above(b, h, i, d);
            grads[j] += factors[j] * above(b, h, i, d) * values(b, h, j, d);
          }
          whole += row[j] * grads[j];
        }
        for (Index j = 0; j < c.source; ++j)
          for (Index d = 0; d < c.size; ++d) {
            const double grad = double(dots.scale) * row[j] * (grads[j] - whole);
            right_queries.at(b, h, i, d) += grad * keys(b, h, j, d);
            right_keys.at(b, h, j, d) += grad * queries(b, h, i, d);
          }
        right_weights.insert(right_weights.end(), row.begin(), row.end());
      }

  must_run(regard_attend(&dots, 0));
  compare("contexts", context.dense(), right_context.numbers);
  context.must_keep_to_its_own();
  if (!c.trained) return;
  compare("weights of dot products", weights, right_weights);
  compare("scores of dot products", shown, right_scores);
  dots.context = above.strided();
  must_run(regard_attend(&dots, 1));
  const double tolerance = 4 * NEAR<Number>;  // sums of some dozen products
  compare("gradients of queries", grad_queries.dense(), right_queries.numbers, tolerance);
  compare("gradients of keys", grad_keys.dense(), right_keys.numbers, tolerance);
  compare("gradients of values", grad_values.dense(), right_values.numbers, tolerance);
  for (auto* each : {&grad_queries, &grad_keys, &grad_values}) each->must_keep_to_its_own();
  if (c.batch * c.heads * c.target * c.source == 0) return;
  must_refuse_wrong(dots, {&Dots::batch, &Dots::heads, &Dots::target, &Dots::source, &Dots::size,
                           &Dots::value_size},
                    [](const Dots& wrong) { return regard_attend(&wrong, 1); });
}

}  // namespace

int check_dots(Random& random) {
  std::vector<Case> cases;
  for (Sight sight : {ALL, CAUSAL, ONE_MASK, MASKS}) {
    for (Index target : {1, 2, 3, 5, 7, 8, 19})  // steps of a decoder go another way than sequences
      for (Index source : {1, 5, 17}) cases.push_back({2, 3, target, source, 5, 7, sight, 1, false});
    for (Index size : ODD_SIZES)
      for (float keep : {1.0f, 0.6f}) {
        cases.push_back({2, 3, 5, 13, size, 11, sight, keep, true});
        cases.push_back({2, 1, 11, 7, 3, size, sight, keep, true});
      }
    cases.push_back({3, 5, 67, 71, 31, 29, sight, 0.9f, true});  // large enough for threads
    cases.push_back({2, 3, 5, 0, 3, 7, sight, 1, true});
    cases.push_back({2, 3, 0, 5, 3, 7, sight, 1, true});
    cases.push_back({0, 3, 5, 7, 3, 7, sight, 1, true});
    cases.push_back({2, 3, 5, 0, 3, 7, sight, 1, false});
  }
  for (const Case& each : cases) check<float>(each, random), check<BFloat16>(each, random);
  return 2 * int(cases.size());
}
