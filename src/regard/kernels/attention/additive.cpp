// The C interface of additive attention, common to all instruction sets.
#include "attention/additive_plan.hpp"
#include "sizes.hpp"
#include "threads.hpp"

namespace {

constexpr Index FEW_QUERIES = 4;  // largest number of queries with a pass over the keys for each

Index threads_for(const Problem& problem) {
  const Index numbers = problem.batch * problem.target * problem.source * problem.size;
  const Index worth = 1 + numbers / WORTH_A_THREAD;
  return problem.threads < worth ? problem.threads : worth;
}

/// Fill the outputs with zeros.
void of_no_pairs(const Problem& problem, const Gradients& gradients) {
  const Index rows = problem.batch * problem.size;
  if (gradients.queries) std::fill_n(gradients.queries, rows * problem.target, 0.0f);
  if (gradients.keys) std::fill_n(gradients.keys, rows * problem.source, 0.0f);
  if (gradients.sigmoids) std::fill_n(gradients.sigmoids, rows, 0.0);
}

}  // namespace

EXPORTED int regard_additive_weigh(const Problem* given, int softmax, float scale, float* weights,
                                   Index bytes) try {
  const Problem& problem = *given;
  if (!fits(problem) ||
      !holds(weights, bytes, dense(sizeof(float), {problem.batch, problem.target, problem.source})))
    return WRONG_SIZES;
  if (problem.batch * problem.target * problem.source == 0) return 0;
  PlanArrays arrays;
  const Plan plan = plan_scores(problem, arrays);
  const Index threads = threads_for(problem);
  // a sentence is one task, or several if there are fewer sentences than threads
  const Index parts = problem.batch >= threads ? 1 : (threads + problem.batch - 1) / problem.batch;
  const Index rows = (problem.target + parts - 1) / parts;
  const Index room = tile_room(problem) + keys_room(problem);
  share_out(problem.batch * parts, room, threads, [&](Index task, float* mine) {
    const Index sentence = task / parts, first = task % parts * rows;
    const Index end = first + rows < problem.target ? first + rows : problem.target;
    in_use().weigh(problem, plan, sentence, first, end, softmax != 0, scale, weights, mine);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}

EXPORTED int regard_additive_differentiate(const Problem* given, const Gradients* gradients) try {
  const Problem& problem = *given;
  if (!fits(problem, *gradients)) return WRONG_SIZES;
  if (problem.batch * problem.target * problem.source == 0) {
    of_no_pairs(problem, *gradients);
    return 0;
  }
  Plan plan{};
  PlanArrays arrays;
  look(problem, plan, arrays);
  const Index threads = threads_for(problem);
  if (!gradients->keys && problem.powers && problem.target < FEW_QUERIES) {
    const Index target = problem.target;
    share_out(problem.batch * target, 3 * problem.size, threads, [&](Index task, float* mine) {
      in_use().differentiate_query(problem, plan, *gradients, task / target, task % target, mine);
    });
    return 0;
  }
  const Index lanes = in_use().lanes, slices = (problem.size + lanes - 1) / lanes;
  const Index room = 3 * (problem.target + problem.source) * lanes;
  share_out(problem.batch * slices, room, threads, [&](Index task, float* mine) {
    in_use().differentiate_slice(problem, plan, *gradients, task / slices, task % slices * lanes, mine);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}

EXPORTED int regard_additive_through_softmax(const float* weights, float* grads, float scale,
                                             Index rows, Index columns, Index threads,
                                             Index weights_bytes, Index grads_bytes) try {
  const Index needed = dense(sizeof(float), {rows, columns});
  if (!holds(weights, weights_bytes, needed) || !holds(grads, grads_bytes, needed))
    return WRONG_SIZES;
  constexpr Index part = 64;
  if (rows * columns < WORTH_A_THREAD) threads = 1;
  share_out((rows + part - 1) / part, 0, threads, [&](Index task, float*) {
    const Index end = (task + 1) * part < rows ? (task + 1) * part : rows;
    for (Index row = task * part; row < end; ++row)
      in_use().through_softmax(weights + row * columns, grads + row * columns, scale, columns);
  });
  return 0;
} catch (const std::bad_alloc&) {
  return OUT_OF_MEMORY;
}
