// What scores and gradients are both made of: e^{2x}, s for numbers of any size, and spans.
#pragma once

#include "additive.hpp"
#include "vector.hpp"

namespace {

constexpr float LIMIT = 43.0f;    // up to it, e^{2x} and its inverse are normal numbers
constexpr float LARGEST = 3e38f;  // of float32, nearly

/// e^{2x}; NaN where x is out of range.
inline Vector power(Vector x) {
  Integers near = absolute(x) <= LIMIT;
  Vector found = exponential(near ? x + x : Vector{});
  return near ? found : same(NOT_A_NUMBER);
}

/// 1 / (1 + e^{2x}), whatever x is.
inline Vector share_of(Vector x) {
  Vector found = 1.0f / (1.0f + exponential(within(x + x, 87)));
  return x == x ? found : x;
}

void powers(const float* from, float* to, Index count) {
  Index i = 0;
  for (; i + LANES <= count; i += LANES) store(to + i, power(load(from + i)));
  if (int rest = int(count - i)) store(to + i, power(load(from + i, rest)), rest);
}

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
