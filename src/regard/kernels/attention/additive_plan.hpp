// Values of additive attention that are computed once for all sentences of a problem.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "attention/additive.hpp"

namespace {

/// 1 / v in a unit that keeps products of many numbers in range; nothing if v is too uneven or has a
/// zero. The unit is the smallest for which products of eight are normal numbers, which leaves the most
/// room for large ones.
float invert(const Problem& problem, std::vector<float>& inverse) {
  double logs = 0;
  for (Index d = 0; d < problem.size; ++d) logs += std::log(std::fabs(problem.vector[d]));
  double unit = std::exp(logs / double(problem.size));
  double largest = 0;
  for (Index d = 0; d < problem.size; ++d)
    largest = std::max(largest, std::fabs(double(problem.vector[d])));
  inverse.resize(problem.size);
  for (Index d = 0; d < problem.size; ++d) {
    inverse[d] = float(unit / problem.vector[d]);
    const float large = std::fabs(inverse[d]);
    if (!(large > 1.0f / 256 && large < 1 << 20)) {
      inverse.clear();
      return 1;
    }
  }
  const double smaller = std::min(1.0, largest / unit * 0x1p-14);
  for (float& number : inverse) number = float(number * smaller);
  return float(unit * smaller);
}

/// Arrays of a plan: spans of the rows of the mask, the keys visible to any query of a sentence, and unit / v.
struct PlanArrays {
  std::vector<Span> spans;
  std::vector<std::uint8_t> seen;
  std::vector<float> inverse;
};

/// Set the spans and the visible keys of a plan.
void look(const Problem& problem, Plan& plan, PlanArrays& arrays) {
  if (!problem.mask) return;
  const Index sentences = problem.mask_batch ? problem.batch : 1;
  const Index rows = problem.mask_row ? problem.target : 1;
  arrays.spans.resize(sentences * rows);
  arrays.seen.assign(sentences * problem.source, 0);
  for (Index sentence = 0; sentence < sentences; ++sentence) {
    std::uint8_t* keys = arrays.seen.data() + sentence * problem.source;
    for (Index row = 0; row < rows; ++row) {
      const std::uint8_t* mask =
          problem.mask + sentence * problem.mask_batch + row * problem.mask_row;
      Index first = 0, end = problem.source;
      while (first < end && !mask[first]) ++first;
      while (end > first && !mask[end - 1]) --end;
      if (first == end) first = end = 0;
      arrays.spans[sentence * rows + row] = {std::int32_t(first), std::int32_t(end)};
      for (Index j = first; j < end; ++j) keys[j] |= mask[j];
    }
  }
  plan.spans = arrays.spans.data();
  plan.span_batch = problem.mask_batch ? rows : 0;
  plan.span_row = problem.mask_row ? 1 : 0;
  plan.seen = arrays.seen.data();
  plan.seen_batch = problem.mask_batch ? problem.source : 0;
}

/// Return the plan of the scores of all sentences, which refers to `arrays`.
Plan plan_scores(const Problem& problem, PlanArrays& arrays) {
  Plan plan{};
  look(problem, plan, arrays);
  plan.unit = invert(problem, arrays.inverse);
  plan.inverse = arrays.inverse.empty() ? nullptr : arrays.inverse.data();
  for (float number : arrays.inverse) plan.largest = std::max(plan.largest, std::fabs(number));
  return plan;
}

}  // namespace
