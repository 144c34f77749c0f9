// Cross entropy with smoothed labels, and the gradient of its logits.
//
//   l      = log sum_v e^{x_v}
//   loss   = l - (1 - e) x_t - e / V sum_v x_v
//   grad_v = e^{x_v - l} - (1 - e) [v = t] - e / V, times the gradient of the loss
#pragma once

#include <cmath>

#include "vector.hpp"

namespace {

struct LogOfSum {
  double log_sum;  // NaN if a logit is
  float total;     // sum of the logits
};

/// log sum_v e^{x_v}, in two passes; `some` is one of the logits.
template <typename Number>
LogOfSum log_of_sum(const Number* logits, Index words, float some) {
  Vector highest = same(some), total{}, powers{};
  over(words, [&](Index v, auto count) {
    highest = larger(highest, load(logits + v, count, some));
    total += load(logits + v, count);
  });
  const float top = largest(highest);
  over(words, [&](Index v, auto count) {
    powers += power_below(load(logits + v, count, -__builtin_inff()) - top);
  });
  return {std::log(double(sum(powers))) + top, sum(total)};
}

template <typename Number>
double cross_entropy(const Number* logits, Index words, Index target, float smoothing, float& log_sum) {
  const float logit = number(logits[target]);
  const LogOfSum found = log_of_sum(logits, words, logit);
  log_sum = float(found.log_sum);
  const double even = smoothing ? double(smoothing) / double(words) * found.total : 0;  // 0 * -inf
  return found.log_sum - (1 - double(smoothing)) * logit - even;
}

double cross_entropy(const Entropy& given, Index row) {
  const Index words = given.words, target = given.targets[row];
  if (!given.is_bfloat16)
    return cross_entropy(static_cast<const float*>(given.logits) + row * words, words, target,
                         given.smoothing, given.log_sums[row]);
  return cross_entropy(static_cast<const BFloat16*>(given.logits) + row * words, words, target,
                       given.smoothing, given.log_sums[row]);
}

template <typename Number>
void cross_entropy_back(const Entropy& given, Index row, float above) {
  const Index words = given.words, target = given.targets[row];
  const Number* logits = static_cast<const Number*>(given.logits) + row * words;
  Number* grads = static_cast<Number*>(given.grads) + row * words;
  const float log_sum = given.log_sums[row], each = given.smoothing / float(words);
  const float logit = number(logits[target]);  // before a gradient may overwrite it
  over(words, [&](Index v, auto count) {
    const Vector share = power_below(load(logits + v, count) - log_sum);
    store(grads + v, (share - each) * above, count);
  });
  const float share = power_below(same(logit) - log_sum)[0];
  grads[target] = as_number<Number>((share - each - (1 - given.smoothing)) * above);
}

void cross_entropy_back(const Entropy& given, Index row, float above) {
  given.is_bfloat16 ? cross_entropy_back<BFloat16>(given, row, above)
              : cross_entropy_back<float>(given, row, above);
}

}  // namespace
