// Sizes of the structures, choice of the instruction set, and the C interface except additive attention.
#include <string_view>

#include "models/encoder.hpp"
#include "kernels.hpp"
#include "models/recurrent_step.hpp"
#include "sizes.hpp"
#include "threads.hpp"

extern const Kernels BASELINE;
#if defined(__x86_64__)
extern const Kernels AVX2, AVX2_ESTIMATES, AVX512;
#endif

namespace {

/// Whether a division takes longer than the estimate of a reciprocal and a Newton step.
bool cpu_divides_slowly() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

bool estimates = cpu_divides_slowly();  // initialised first: it prepares __builtin_cpu_supports

#if defined(__x86_64__)
const Kernels* of_avx2() { return estimates ? &AVX2_ESTIMATES : &AVX2; }
#endif

const Kernels* best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return &AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return of_avx2();
#endif
  return &BASELINE;
}

bool cpu_has_byte_products() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

const Kernels* chosen = best();
bool byte_products = cpu_has_byte_products();

constexpr Index WORTH_A_TASK = 1 << 14;  // numbers that one thread computes at a time

/// Run work(first, end) over all rows, some at a time.
template <typename Work>
void by_rows(Index rows, Index size, Index threads, const Work& work) {
  const Index each = 1 + WORTH_A_TASK / (size ? size : 1), tasks = (rows + each - 1) / each;
  share_out(tasks, 0, tasks < 4 ? 1 : threads, [&](Index task, float*) {
    const Index first = task * each, end = first + each;
    work(first, end < rows ? end : rows);
  });
}

}  // namespace

const Kernels& in_use() { return *chosen; }

bool has_byte_products() { return byte_products; }

/// Version of the structures and functions of this interface: see kernels/__init__.py.
EXPORTED int regard_interface() { return 12; }

/// Bytes of a structure, by its name; 0 for an unknown name.
EXPORTED Index regard_size(const char* name) {
  constexpr struct {
    std::string_view name;
    Index size;
  } structures[] = {
      {"Problem", sizeof(Problem)},   {"Gradients", sizeof(Gradients)}, {"CellStep", sizeof(CellStep)},
      {"CellBack", sizeof(CellBack)}, {"Entropy", sizeof(Entropy)},     {"Strided", sizeof(Strided)},
      {"Dots", sizeof(Dots)},         {"Dropping", sizeof(Dropping)},   {"Candidates", sizeof(Candidates)},
      {"Packed", sizeof(Packed)},     {"Product", sizeof(Product)},     {"Norm", sizeof(Norm)},
      {"DecoderLayer", sizeof(DecoderLayer)}, {"DecoderStep", sizeof(DecoderStep)},
      {"EncoderLayer", sizeof(EncoderLayer)}, {"EncoderPass", sizeof(EncoderPass)},
      {"RecurrentLayer", sizeof(RecurrentLayer)}, {"RecurrentStep", sizeof(RecurrentStep)},
  };
  for (const auto& each : structures)
    if (each.name == name) return each.size;
  return 0;
}

/// Lanes of the instruction set in use. With `lanes` of 16, 8 or 4, the largest set to use.
EXPORTED int regard_lanes(int lanes) {
  if (lanes == BASELINE.lanes) chosen = &BASELINE;
#if defined(__x86_64__)
  const Kernels* all[] = {of_avx2(), &AVX512};
  for (const Kernels* kernels : all)
    if (kernels->lanes == lanes && kernels->lanes <= best()->lanes) chosen = kernels;
#endif
  return chosen->lanes;
}

/// Whether products of integers may use the CPU's instructions for dot products of bytes. 0 disables
/// them, 1 enables them if the CPU has them.
EXPORTED int regard_byte_products(int wanted) {
  byte_products = wanted && cpu_has_byte_products();
  return byte_products;
}

/// Whether kernels of AVX2 compute reciprocals by estimates with a Newton step, not by divisions. 0
/// selects divisions, 1 selects estimates, and a negative number selects the faster ones on this CPU.
EXPORTED int regard_estimates(int wanted) {
  estimates = wanted < 0 ? cpu_divides_slowly() : wanted != 0;
  regard_lanes(chosen->lanes);
  return estimates;
}

EXPORTED int regard_cell_step(const CellStep* step) try {
  if (!fits(*step)) return WRONG_SIZES;
  by_rows(step->rows, step->size, step->threads,
          [&](Index first, Index end) { chosen->step(*step, first, end); });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}

EXPORTED int regard_cell_back(const CellBack* back) try {
  if (!fits(*back)) return WRONG_SIZES;
  by_rows(back->rows, back->size, back->threads,
          [&](Index first, Index end) { chosen->back(*back, first, end); });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}

/// `losses` has one entry a row.
EXPORTED int regard_cross_entropy(const Entropy* given, double* losses, Index bytes) try {
  if (!fits(*given) || !holds(losses, bytes, dense(sizeof(double), {given->rows})))
    return WRONG_SIZES;
  by_rows(given->rows, given->words, given->threads, [&](Index first, Index end) {
    for (Index row = first; row < end; ++row) losses[row] = chosen->cross_entropy(*given, row);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}

EXPORTED int regard_cross_entropy_back(const Entropy* given, float above) try {
  const Index logits = dense(item_of(given->is_bfloat16), {given->rows, given->words});
  if (!fits(*given) || !holds(given->grads, given->bytes[3], logits)) return WRONG_SIZES;
  by_rows(given->rows, given->words, given->threads, [&](Index first, Index end) {
    for (Index row = first; row < end; ++row) chosen->cross_entropy_back(*given, row, above);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}

EXPORTED int regard_attend(const Dots* dots, Index back) try {
  if (!fits(*dots, back != 0)) return WRONG_SIZES;
  const auto attend = back ? chosen->attend_back : chosen->attend;
  const Index tasks = dots->batch * dots->heads;
  const Index numbers = tasks * dots->target * dots->source * dots->size;
  share_out(tasks, room_of(*dots), numbers < WORTH_A_THREAD ? 1 : dots->threads,
            [&](Index task, float* room) { attend(*dots, task, room); });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}

EXPORTED int regard_drop(const Dropping* given) try {
  if (!fits(*given)) return WRONG_SIZES;
  constexpr Index lanes = MAX_LANES;  // whole vectors of every instruction set to a task
  by_rows((given->count + lanes - 1) / lanes, lanes, given->threads, [&](Index first, Index end) {
    const Index last = end * lanes;
    chosen->drop(*given, first * lanes, last < given->count ? last : given->count);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}

EXPORTED int regard_candidates(const Candidates* given) try {
  if (!fits(*given)) return WRONG_SIZES;
  by_rows(given->sentences, given->hypotheses * given->words, given->threads,
          [&](Index first, Index end) {
            for (Index i = first; i < end; ++i) chosen->candidates(*given, i);
          });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}
