// What scores and gradients are both made of: e^{2x}, s for numbers of any size, and spans.
#pragma once

#include "additive.hpp"
#include "vector.hpp"

namespace {

constexpr float LIMIT = 43.0f;    // up to it, e^{2x} and its inverse are normal numbers
constexpr float SATURATED = 34.0f;  // 9 from the end of the range, where tanh has rounded to one
constexpr float LARGEST = 0x1p120f;  // power from which a share counts as zero

/// e^{2x}, of the end of the range where x is out of it.
inline Vector power(Vector x) {
  const Vector found = exponential(within(x + x, 2 * LIMIT));
  return x == x ? found : x;
}

/// 1 / (1 + e^{2x}), whatever x is.
inline Vector share_of(Vector x) {
  Vector found = inverse(1.0f + exponential(within(x + x, 87)));
  return x == x ? found : x;
}

/// Writes the powers of numbers; whether one of these is out of range.
bool powers(const float* from, float* to, Index count) {
  Vector largest{};
  over(count, [&](Index i, auto lanes) {
    const Vector x = load(from + i, lanes), size = absolute(x);
    largest = size > largest ? size : largest;
    store(to + i, power(x), lanes);
  });
  return any_above(largest, LIMIT);
}

/// Numbers of a query and a key as far apart are opposite and one of them may be out of range, so that
/// the powers at its ends cannot stand for them. Nearer ones are right, or so large that tanh has
/// rounded to one or minus one.
constexpr float APART = LIMIT + SATURATED;

Span span_of(const Problem& problem, const Plan& plan, Index sentence, Index row) {
  if (!plan.spans) return {0, std::int32_t(problem.source)};
  return plan.spans[sentence * plan.span_batch + row * plan.span_row];
}

const std::uint8_t* seen_of(const Plan& plan, Index sentence) {
  return plan.seen ? plan.seen + sentence * plan.seen_batch : nullptr;
}

/// From the first key that one of some queries sees to before the end of all.
Span span_of(const Problem& problem, const Plan& plan, Index sentence, Index row, Index rows) {
  Span all{std::int32_t(problem.source), 0};
  for (Index i = row; i < row + rows; ++i) {
    const Span span = span_of(problem, plan, sentence, i);
    if (span.first == span.end) continue;
    all.first = span.first < all.first ? span.first : all.first;
    all.end = span.end > all.end ? span.end : all.end;
  }
  return all.first < all.end ? all : Span{0, 0};
}

}  // namespace
