// Dropout: numbers times 1 / keep or 0, by noise computed from a seed.
#pragma once

#include "random.hpp"

namespace {

template <typename Number>
void drop(const Number* from, Number* to, Index first, Index end, std::uint64_t seed, float keep) {
  over(end - first, [&](Index i, auto count) {
    const Index place = first + i;
    store(to + place, load(from + place, count) * kept_lanes(seed, place, keep), count);
  });
}

void drop(const Dropping& given, Index first, Index end) {
  if (given.is_bfloat16)
    drop(static_cast<const BFloat16*>(given.from), static_cast<BFloat16*>(given.to), first, end,
         given.seed, given.keep);
  else
    drop(static_cast<const float*>(given.from), static_cast<float*>(given.to), first, end,
         given.seed, given.keep);
}

}  // namespace
