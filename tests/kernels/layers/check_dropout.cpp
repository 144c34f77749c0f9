// Dropout: its noise, worked out number by number; how much it keeps; and that threads change nothing.
#include "checks.hpp"

namespace {

std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// What the number at a place is multiplied by.
double noise(std::uint64_t seed, std::uint64_t place, float keep) {
  const std::uint32_t low = std::uint32_t(place) + std::uint32_t(seed);
  const std::uint32_t high = std::uint32_t(place >> 32) ^ std::uint32_t(seed >> 32);
  return (mixed(mixed(low) + high) >> 8) * 0x1p-24 < double(keep) ? 1 / double(keep) : 0;
}

template <typename Number>
void check(Index count, float keep, Random& random) {
  const std::uint64_t seed = (std::uint64_t(random()) << 32) | random();
  const std::vector<Number> from = drawn<Number>(random, count);
  std::vector<double> right(count);
  Index kept = 0;
  for (Index i = 0; i < count; ++i) {
    right[i] = value(from[i]) * noise(seed, i, keep);
    kept += right[i] != 0;
  }
  for (Index threads : {Index(1), THREADS}) {
    std::vector<Number> to = unknown<Number>(count);
    const Dropping dropping{count, IS_BFLOAT16<Number>, threads, from.data(), to.data(), seed, keep,
                            {bytes(from), bytes(to)}};
    must_run(regard_drop(&dropping));
    compare("what is not dropped", to, right);
    if (count)
      must_refuse_wrong(dropping, {&Dropping::count},
                        [](const Dropping& wrong) { return regard_drop(&wrong); });
  }
  const double deviation = std::sqrt(double(count) * keep * (1 - keep));
  must(std::fabs(double(kept) - double(count) * keep) <= 6 * deviation, "dropout keeps another share");
}

}  // namespace

int check_dropout(Random& random) {
  int problems = 0;
  for (float keep : {0.1f, 0.5f, 0.9f})
    for (Index count : {Index(0), Index(1), Index(15), Index(37), Index(100003)}) {
      check<float>(count, keep, random), check<BFloat16>(count, keep, random);
      problems += 2;
    }
  return problems;
}
