// Functions of scores and gradients: e^{2x}, s for numbers of any size, and spans.
#pragma once

#include "attention/additive.hpp"
#include "vector.hpp"

namespace {

constexpr float LIMIT = 43.0f;       // up to it, e^{2x} and its inverse are normal numbers
constexpr float LARGEST = 0x1p40f;   // power from which s counts as zero
constexpr float HUGE_NUMBER = 4096;  // above it, split powers are not exact enough
constexpr float CLAMPED = 0x1p26f;   // power from which tanh rounds to one

/// 1 / (1 + e^{2x}) of any x, with e^{2x} at most about LARGEST. Smaller s would make products
/// subnormal, which are slow.
inline Vector share_of(Vector x) {
  Vector found = inverse(1.0f + exponential(within(x + x, 28)));
  return x == x ? found : x;
}

constexpr float ROUNDING = 12582912.0f;  // 1.5 * 2^23: the spacing of floats near it is 1

/// e^{2x} = mantissa * 2^exponent, with a mantissa from 0.7 to 1.42 and an integer exponent.
struct Split {
  Vector mantissa, exponent;
};

/// Split power of x up to HUGE_NUMBER; the mantissa of larger x, and of NaN, is NaN.
inline Split split_power(Vector x) {
  const Vector power = within(x + x, 2 * HUGE_NUMBER);
  const Vector n = (power * 1.44269504f + ROUNDING) - ROUNDING;
  const Vector series = exponential_series(power - n * 0.693359375f - n * -2.12194440e-4f);
  return {absolute(x) <= HUGE_NUMBER ? series : same(NOT_A_NUMBER), n};
}

constexpr float OFFSET = ROUNDING + 127;  // makes the bits of an exponent those of a power of two

/// mantissa * 2^n for n from -`least` to `most`, of the nearer end beyond; `exponent` is n + OFFSET.
inline Vector scaled(Vector mantissa, Vector exponent, float least, float most) {
  exponent = maximum(minimum(exponent, same(OFFSET + most)), same(OFFSET - least));
  return mantissa * (Vector)((Integers)exponent << 23);
}

/// e^{2x}; for x out of range, that of the nearest end of the range.
inline Vector power(Split split) {
  return scaled(split.mantissa, split.exponent + OFFSET, 124, 124);
}

/// Largest absolute value; NaN is skipped.
float largest_of(const float* numbers, Index count) {
  Vector largest{};
  over(count, [&](Index i, auto lanes) {
    const Vector size = absolute(load(numbers + i, lanes));
    largest = maximum(size, largest);
  });
  float top = 0;
  for (int lane = 0; lane < LANES; ++lane) top = largest[lane] > top ? largest[lane] : top;
  return top;
}

/// Writes powers of numbers unless `to` is null; and, unless `splits` is null, the mantissas of their
/// split powers and behind these the exponents plus `offset`.
void powers(const float* from, float* to, float* splits, float offset, Index count) {
  over(count, [&](Index i, auto lanes) {
    const Split split = split_power(load(from + i, lanes));
    if (to) store(to + i, power(split), lanes);
    if (!splits) return;
    store(splits + i, split.mantissa, lanes);
    store(splits + count + i, split.exponent + offset, lanes);
  });
}

Span span_of(const Problem& problem, const Plan& plan, Index sentence, Index row) {
  if (!plan.spans) return {0, std::int32_t(problem.source)};
  return plan.spans[sentence * plan.span_batch + row * plan.span_row];
}

const std::uint8_t* seen_of(const Plan& plan, Index sentence) {
  return plan.seen ? plan.seen + sentence * plan.seen_batch : nullptr;
}

/// Span of the keys visible to any of some queries.
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
