// The plain C interface of the kernels: what is the same for every instruction set, and threads.
#include "additive.hpp"

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#define EXPORTED extern "C" __attribute__((visibility("default")))

extern const Kernels BASELINE;
#if defined(__x86_64__)
extern const Kernels AVX2, AVX512;
#endif

namespace {

constexpr Index WORTH_A_THREAD = 1 << 21;  // numbers of pairs that take longer than starting one
constexpr Index FEW_QUERIES = 4;               // up to which each passes over its keys alone

const Kernels* best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return &AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &AVX2;
#endif
  return &BASELINE;
}

const Kernels* chosen = best();

/// Numbers that begin where a line of the cache does, so that no vector lies across two.
class Room {
 public:
  explicit Room(Index count)
      : numbers_(static_cast<float*>(operator new(sizeof(float) * count, LINE))) {}
  float* numbers() const { return numbers_.get(); }

 private:
  static constexpr std::align_val_t LINE{64};
  struct Free {
    void operator()(float* numbers) const { operator delete(numbers, LINE); }
  };
  std::unique_ptr<float, Free> numbers_;
};

/// Runs work(0) to work(threads - 1), each on a thread of its own. With OpenMP these are the threads
/// that torch uses, which would otherwise wait for its next call on the cores that ours need.
template <typename Work>
void on_threads(Index threads, const Work& work) {
#ifdef _OPENMP
#pragma omp parallel num_threads(int(threads))
  work(omp_get_thread_num());
#else
  std::vector<std::thread> others;
  others.reserve(threads);
  for (Index i = 1; i < threads; ++i) {
    try {
      others.emplace_back(work, i);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: the others do the work
    }
  }
  work(0);
  for (std::thread& other : others) other.join();
#endif
}

/// Runs task(index, room) for every index, on several threads where that is worth it. Each index is
/// one thread's alone, and what it writes does not depend on how many threads there are.
template <typename Task>
void share_out(Index count, Index room, Index threads, const Task& task) {
  if (threads > count) threads = count;
  if (threads < 1) threads = 1;
  std::vector<Room> rooms;  // all of it before a thread starts: failing is still harmless
  for (Index i = 0; i < threads; ++i) rooms.emplace_back(room);
  std::atomic<Index> next{0};
  auto work = [&](Index thread) {
    for (Index index; (index = next.fetch_add(1)) < count;) task(index, rooms[thread].numbers());
  };
  if (threads == 1)
    work(0);
  else
    on_threads(threads, work);
}

Index threads_for(const Problem& problem) {
  const Index numbers = problem.batch * problem.target * problem.source * problem.size;
  const Index worth = 1 + numbers / WORTH_A_THREAD;
  return problem.threads < worth ? problem.threads : worth;
}

/// 1 / v in a unit that makes their product over many numbers neither large nor small; nothing where
/// v is so uneven, or holds a zero, that this cannot be.
float invert(const Problem& problem, std::vector<float>& inverse) {
  double logs = 0;
  for (Index d = 0; d < problem.size; ++d) logs += std::log(std::fabs(problem.vector[d]));
  const float unit = float(std::exp(logs / double(problem.size)));
  inverse.resize(problem.size);
  for (Index d = 0; d < problem.size; ++d) {
    inverse[d] = unit / problem.vector[d];
    const float large = std::fabs(inverse[d]);
    if (!(large > 1.0f / 256 && large < 1 << 20)) {
      inverse.clear();
      return 1;
    }
  }
  return unit;
}

/// The spans of the mask's rows, and which keys any of a sentence's queries sees.
struct Seen {
  std::vector<Span> spans;
  std::vector<std::uint8_t> keys;
};

void look(const Problem& problem, Plan& plan, Seen& seen) {
  if (!problem.mask) return;
  const Index sentences = problem.mask_batch ? problem.batch : 1;
  const Index rows = problem.mask_row ? problem.target : 1;
  seen.spans.resize(sentences * rows);
  seen.keys.assign(sentences * problem.source, 0);
  for (Index sentence = 0; sentence < sentences; ++sentence) {
    std::uint8_t* keys = seen.keys.data() + sentence * problem.source;
    for (Index row = 0; row < rows; ++row) {
      const std::uint8_t* mask =
          problem.mask + sentence * problem.mask_batch + row * problem.mask_row;
      Index first = 0, end = problem.source;
      while (first < end && !mask[first]) ++first;
      while (end > first && !mask[end - 1]) --end;
      if (first == end) first = end = 0;
      seen.spans[sentence * rows + row] = {std::int32_t(first), std::int32_t(end)};
      for (Index j = first; j < end; ++j) keys[j] |= mask[j];
    }
  }
  plan.spans = seen.spans.data();
  plan.span_batch = problem.mask_batch ? rows : 0;
  plan.span_row = problem.mask_row ? 1 : 0;
  plan.seen = seen.keys.data();
  plan.seen_batch = problem.mask_batch ? problem.source : 0;
}

}  // namespace

/// Which version of the structures and functions of this interface these are: see native.py.
EXPORTED int regard_additive_interface() { return 1; }

/// Lanes of the instruction set in use. `lanes` above zero asks for the set with so many: 16, 8, 4.
EXPORTED int regard_additive_lanes(int lanes) {
  if (lanes == BASELINE.lanes) chosen = &BASELINE;
#if defined(__x86_64__)
  const Kernels* all[] = {&AVX2, &AVX512};
  for (const Kernels* kernels : all)
    if (kernels->lanes == lanes && kernels->lanes <= best()->lanes) chosen = kernels;
#endif
  return chosen->lanes;
}

/// Zero where all went well, 1 where memory was short.
EXPORTED int regard_additive_weigh(const Problem* given, int softmax, float scale, float* weights) try {
  const Problem& problem = *given;
  if (problem.batch * problem.target * problem.source == 0) return 0;
  Plan plan{};
  Seen seen;
  look(problem, plan, seen);
  std::vector<float> inverse;
  plan.unit = invert(problem, inverse);
  plan.inverse = inverse.empty() ? nullptr : inverse.data();
  const Index threads = threads_for(problem), keys = problem.source * problem.size;
  // a sentence is one task, or several where there are fewer sentences than threads
  const Index parts = problem.batch >= threads ? 1 : (threads + problem.batch - 1) / problem.batch;
  const Index rows = (problem.target + parts - 1) / parts;
  const Index tile = tile_room(problem), room = tile + (problem.powers ? 0 : keys);
  share_out(problem.batch * parts, room, threads, [&](Index task, float* mine) {
    const Index sentence = task / parts, first = task % parts * rows;
    const Index end = first + rows < problem.target ? first + rows : problem.target;
    const float* powers = problem.powers ? problem.powers + sentence * keys : mine + tile;
    if (!problem.powers) chosen->powers(problem.keys + sentence * keys, mine + tile, keys);
    chosen->weigh(problem, plan, sentence, first, end, powers, softmax != 0, scale, weights, mine);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return 1;
}

EXPORTED int regard_additive_differentiate(const Problem* given, const Gradients* gradients) try {
  const Problem& problem = *given;
  Plan plan{};
  Seen seen;
  look(problem, plan, seen);
  const Index threads = threads_for(problem);
  if (!gradients->keys && problem.powers && problem.target < FEW_QUERIES) {
    const Index target = problem.target;
    share_out(problem.batch * target, problem.size, threads, [&](Index task, float* mine) {
      chosen->differentiate_query(problem, plan, *gradients, task / target, task % target, mine);
    });
    return 0;
  }
  const Index lanes = chosen->lanes, slices = (problem.size + lanes - 1) / lanes;
  const Index room = 2 * (problem.target + problem.source) * lanes;
  share_out(problem.batch * slices, room, threads, [&](Index task, float* mine) {
    chosen->differentiate_slice(problem, plan, *gradients, task / slices, task % slices * lanes, mine);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return 1;
}

EXPORTED int regard_additive_through_softmax(const float* weights, float* grads, float scale,
                                             Index rows, Index columns, Index threads) try {
  constexpr Index part = 64;
  if (rows * columns < WORTH_A_THREAD) threads = 1;
  share_out((rows + part - 1) / part, 0, threads, [&](Index task, float*) {
    const Index end = (task + 1) * part < rows ? (task + 1) * part : rows;
    for (Index row = task * part; row < end; ++row)
      chosen->through_softmax(weights + row * columns, grads + row * columns, scale, columns);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return 1;
}
